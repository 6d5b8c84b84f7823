/* Pre-tokenisers: how the models that are known by a name in tokenizer.ggml.pre split a text into
 * words before merging.  Facts are taken from the tokenizer.json of the models and from llama.cpp, which
 * gave the names (src/llama-vocab.cpp; named below by its LLAMA_VOCAB_PRE_TYPE).  Where the two
 * differ the model's own pattern is used: llama.cpp approximates letter cases and scripts. */
#include "vocab/internal.h"

#include <string.h>

/* Unicode's White_Space, the meaning of \s in the models' own tokenizers; PCRE2's differs. */
#define SPACES                                                                                       \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"      \
    "\\x{205f}\\x{3000}"
#define S     "[" SPACES "]"
#define NOT_S "[^" SPACES "]"

#define CONTRACTION "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
/* The last spaces before a word belong to it, the others are a word of their own. */
#define BLANKS  S "+(?!" NOT_S ")|" S "+"
#define LINES   S "*[\\r\\n]+|" BLANKS
#define SYMBOLS " ?[^" SPACES "\\p{L}\\p{N}]+"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" BLANKS
#define LLAMA3 CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES
#define QWEN2  CONTRACTION "|" LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES

/* A word is capitals, then small letters; letters without case are both. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, end)                                                                     \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end
#define GPT4O(digits)                                                                                \
    CASED(UPPER, LOWER, "(?:" CONTRACTION ")?") "|" digits "|" SYMBOLS "[\\r\\n/]*|" LINES

#define NOT_HAN(letters) "(?:(?!\\p{Han})" letters ")"

#define DEEPSEEK3_WORDS                                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES
#define CJK "[一-龥぀-ゟ゠-ヿ]+"

/* The letters with case that the DeepSeek LLM tokenizer lists. */
#define DEEPSEEK_LETTERS                                                                             \
    "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ"   \
    "Ὗ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆ"    \
    "ﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"

/* Possessive, so that a run that no space ends is not tried from each of its places. */
#define FINAL_SPACES "(?<!" S ")" S "++$"

static const struct pre_facts table[] = {
    {"gpt-2 gpt2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
     "gigachat a.x-4.0 mellum modern-bert exaone4 mpt olmo jais trillion granite-docling gpt-neox "
     "pythia",
     {GPT2}, 0, "openai/gpt-2 encoder.py; GPT2, MPT, OLMO, JAIS"},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {LLAMA3}, PRE_IGNORE_MERGES | PRE_ADD_BOS, "meta-llama/Meta-Llama-3-8B tokenizer.json; LLAMA3"},
    {"smaug-bpe dbrx glm4 chatglm-bpe", {LLAMA3}, 0, "SMAUG, DBRX, CHATGLM4"},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
     {QWEN2}, 0, "Qwen/Qwen2-7B tokenizer.json; QWEN2, STABLELM2, HUNYUAN, SOLAR_OPEN, GROK_2"},
    {"qwen35",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACES
                  "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES},
     0, "QWEN35"},
    {"default",
     {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, 0, "DEFAULT"},
    {"deepseek-llm",
     {"[\\r\\n]", S "?[" DEEPSEEK_LETTERS "]+", S "?[!-/:-~！-／：-～‘-‟　-。]+", FINAL_SPACES,
      "[一-龥ࠀ-一가-퟿]+", "\\p{N}+"},
     0, "deepseek-ai/deepseek-llm-7b-base tokenizer.json; DEEPSEEK_LLM"},
    {"deepseek-coder",
     {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"},
     0, "deepseek-ai/deepseek-coder-6.7b-base tokenizer.json; DEEPSEEK_CODER"},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     {"\\p{N}{1,3}", CJK, DEEPSEEK3_WORDS}, 0, "deepseek-ai/DeepSeek-V3 tokenizer.json; DEEPSEEK3_LLM"},
    {"youtu",
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", GPT4O("\\p{N}")},
     PRE_IGNORE_MERGES, "YOUTU"},
    {"falcon",
     {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}, 0, "tiiuae/falcon-7b tokenizer.json; FALCON"},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     {"\\p{N}", GPT2}, 0,
     "bigcode/starcoder2-3b tokenizer.json; STARCODER, REFACT, COMMAND_R, SMOLLM, CODESHELL, EXAONE, "
     "MINERVA"},
    {"bloom gpt3-finnish poro-chat", {" ?[^(" SPACES "|.,!?…。，、।۔،)]+"}, 0,
     "bigscience/bloom tokenizer.json; BLOOM, PORO"},
    {"viking", {" ?[^(" SPACES "|.,!?…。，、।۔،)]+", "\\p{N}"}, 0, "VIKING"},
    {"tekken",
     {CASED(UPPER, LOWER, "") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" LINES},
     PRE_IGNORE_MERGES | PRE_ADD_BOS, "mistralai/Mistral-Nemo-Base-2407 tokenizer.json; TEKKEN"},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", {GPT4O("\\p{N}{1,3}")}, 0,
     "o200k_base; GPT4O, MINIMAX_M2"},
    {"kimi-k2",
     {"\\p{Han}+|" CASED(NOT_HAN(UPPER), NOT_HAN(LOWER), "(?:" CONTRACTION ")?") "|\\p{N}{1,3}|" SYMBOLS
                        "[\\r\\n]*|" LINES},
     0, "moonshotai/Kimi-K2-Base tokenization_kimi.py; KIMI_K2"},
    {"jais-2",
     {CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" S "*[\\r\\n]+|" S "{512}(?!" NOT_S
                  ")|" S "{256}(?!" NOT_S ")|" S "{128}(?!" NOT_S ")|" S "{64}(?!" NOT_S ")|" S
                  "{32}(?!" NOT_S ")|" S "{16}(?!" NOT_S ")|" S "{8}(?!" NOT_S ")|" S "{4}(?!" NOT_S
                  ")|" S "{1,2}(?!" NOT_S ")|" S},
     0, "JAIS2"},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" S
      "*[\\r\\n]|" BLANKS},
     0, "BAILINGMOE"},
    {"seed-coder",
     {CONTRACTION "|" LETTERS "|\\p{N}| ?[^" SPACES "\\p{L}\\p{N}\\r\\n]+|" LINES}, 0,
     "ByteDance-Seed/Seed-Coder-8B-Base tokenizer.json; SEED_CODER"},
    {"exaone-moe",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}|" SYMBOLS
                  "[\\r\\n/]?|" S "*[\\r\\n]|" BLANKS},
     0, "EXAONE_MOE"},
    {"minicpm5", {"\\p{N}{1,3}", CONTRACTION "|" LETTERS "|\\p{N}+|" SYMBOLS "[\\r\\n]*|" LINES},
     PRE_IGNORE_MERGES, "MINICPM5"},
    {"laguna", {"[^\\n]+|\\n+", QWEN2}, 0, "LAGUNA"},
};

const struct pre_facts *pre_find(struct gguf_string name)
{
    if (name.length == 0 || memchr(name.bytes, ' ', name.length))
        return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (const char *at = table[i].names; *at;) {
            size_t length = strcspn(at, " ");
            if (length == name.length && memcmp(at, name.bytes, length) == 0)
                return &table[i];
            at += length;
            at += *at == ' ';
        }
    return NULL;
}
