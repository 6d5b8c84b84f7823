/* Pre-tokenisers: how the models that are known by a name in tokenizer.ggml.pre split a text into
 * words before merging.  Facts are taken from the tokenizer.json of the models and from llama.cpp,
 * which gave the names (src/llama-vocab.cpp; named below by its LLAMA_VOCAB_PRE_TYPE).  Where the
 * two differ the model's own pattern is used: llama.cpp approximates letter cases and scripts. */
#include "vocab/internal.h"

#include <string.h>

/* The patterns are easier to check as they stand. */
/* clang-format off */

/* Unicode's White_Space, the meaning of \s in the models' own tokenizers; PCRE2's differs. */
#define SPACES                                                                                      \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"     \
    "\\x{205f}\\x{3000}"
#define S     "[" SPACES "]"
#define NOT_S "[^" SPACES "]"

/* The last space before a word belongs to it, the others are a word of their own. */
#define BLANKS      S "+(?!" NOT_S ")|" S "+"
#define LINES       S "*[\\r\\n]+|" BLANKS
#define SYMBOLS     " ?[^" SPACES "\\p{L}\\p{N}]+"
#define LETTERS     "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define CONTRACTION "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"

#define GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOLS "|" BLANKS
#define LLAMA3 CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" LINES
#define QWEN2  CONTRACTION "|" LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES

/* A word is capitals, then small letters; letters without case are both. */
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, end)                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" end                                                \
    "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" end
#define GPT4O(digits)                                                                               \
    CASED(UPPER, LOWER, "(?:" CONTRACTION ")?") "|" digits "|" SYMBOLS "[\\r\\n/]*|" LINES

#define NOT_HAN(letters) "(?:(?!\\p{sc:Han})" letters ")"

/* Punctuation of ASCII goes with the Latin letters after it. */
#define DEEPSEEK_LATIN                                                                              \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"                                         \
    "|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
#define DEEPSEEK3 DEEPSEEK_LATIN "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES

/* A run of spaces is cut into powers of two, the greatest first, that leave one for the word. */
/* No newline is ahead of spaces that were taken already: looking for one again would take quadratic time. */
#define NOT_AFTER_SPACES                                                                            \
    "(?<![\\x{9}\\x{b}\\x{c}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}"       \
    "\\x{202f}\\x{205f}\\x{3000}])"
#define HALF(n) S "{" n "}(?!" NOT_S ")|"
#define SPACES_BY_HALVES                                                                            \
    HALF("512") HALF("256") HALF("128") HALF("64") HALF("32") HALF("16") HALF("8") HALF("4")        \
    HALF("1,2") S

/* Characters are written by number: normalisation, in an editor say, would change some. */
#define HAN_KANA       "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define DEEPSEEK_OTHER "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK_SIGNS                                                                              \
    "[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
#define BLOOM                                                                                       \
    " ?[^(" SPACES "|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
#define AFMOE_SCRIPTS                                                                               \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}"   \
    "\\x{2f00}-\\x{2fdf}\\x{e00}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}"      \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define YOUTU_SCRIPTS                                                                               \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+"                                                     \
    "|[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}"  \
    "\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|" HAN_KANA

/* The letters with case that the DeepSeek LLM tokenizer lists. */
#define DEEPSEEK_LETTERS                                                                           \
    "\\x{41}-\\x{5a}\\x{61}-\\x{7a}\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}"          \
    "\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}"         \
    "\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}"                  \
    "\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}"      \
    "\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}"                 \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}"                 \
    "\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}"        \
    "\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}"         \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}"                 \
    "\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}"                  \
    "\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}"                   \
    "\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}"        \
    "\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}"         \
    "\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}"                  \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}"                 \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}"               \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}"         \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}"

/* Possessive, and not inside a run: otherwise a long run of spaces that does not end the piece would be
 * tried from each of its places. */
#define FINAL_SPACES "(?<!" S ")" S "++$"

static const struct pre_facts table[] = {
    {"gpt-2 gpt2 phi-2 gpt-neox gptneox mpt olmo jais trillion granite-docling exaone4 gigachat a.x-4.0 mellum "
     "modern-bert roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code",
     {GPT2}, 0, "openai/gpt-2 encoder.py; GPT2, MPT, OLMO, JAIS, TRILLION"},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     {LLAMA3}, PRE_IGNORE_MERGES | PRE_ADD_BOS, "meta-llama/Meta-Llama-3-8B tokenizer.json; LLAMA3"},
    {"smaug-bpe smaug dbrx glm4 chatglm-bpe chatglm",
     {LLAMA3}, 0, "databricks/dbrx-instruct, THUDM/glm-4-9b; SMAUG, DBRX, CHATGLM4"},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
     {QWEN2}, 0, "Qwen/Qwen2-7B tokenizer.json; QWEN2, STABLELM2, HUNYUAN, SOLAR_OPEN, GROK_2"},
    {"qwen35",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"
      "| ?[^" SPACES "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES}, 0, "QWEN35"},
    {"default",
     {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, 0, "DEFAULT"},
    {"deepseek-llm",
     {"[\\r\\n]", S "?[" DEEPSEEK_LETTERS "]+", S "?" DEEPSEEK_SIGNS, FINAL_SPACES, DEEPSEEK_OTHER,
      "\\p{N}+"}, 0, "deepseek-ai/deepseek-llm-7b-base tokenizer.json; DEEPSEEK_LLM"},
    {"deepseek-coder",
     {"[\\r\\n]", S "?\\p{L}+", S "?\\p{P}+", DEEPSEEK_OTHER, "\\p{N}"},
     0, "deepseek-ai/deepseek-coder-6.7b-base tokenizer.json; DEEPSEEK_CODER"},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK3},
     0, "deepseek-ai/DeepSeek-V3 tokenizer.json; DEEPSEEK3_LLM, HUNYUAN_DENSE"},
    {"youtu", {YOUTU_SCRIPTS, GPT4O("\\p{N}")}, PRE_IGNORE_MERGES, "YOUTU"},
    {"falcon",
     {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}, 0, "tiiuae/falcon-7b tokenizer.json; FALCON"},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b minerva mellum2",
     {"\\p{N}", GPT2}, 0,
     "bigcode/starcoder2-3b tokenizer.json; STARCODER, REFACT, COMMAND_R, SMOLLM, CODESHELL, EXAONE, "
     "MINERVA, MELLUM2"},
    {"bloom gpt3-finnish poro-chat poro", {BLOOM}, 0, "bigscience/bloom tokenizer.json; BLOOM, PORO"},
    {"viking", {BLOOM, "\\p{N}"}, 0, "VIKING"},
    {"tekken",
     {CASED(UPPER, LOWER, "") "|\\p{N}|" SYMBOLS "[\\r\\n/]*|" LINES},
     PRE_IGNORE_MERGES | PRE_ADD_BOS, "mistralai/Mistral-Nemo-Base-2407 tokenizer.json; TEKKEN"},
    {"gpt-4o llama4 kanana2 talkie minimax-m2",
     {GPT4O("\\p{N}{1,3}")}, 0, "openai/tiktoken o200k_base; GPT4O, MINIMAX_M2"},
    {"kimi-k2",
     {"\\p{sc:Han}+|" CASED(NOT_HAN(UPPER), NOT_HAN(LOWER), "(?:" CONTRACTION ")?") "|\\p{N}{1,3}|"
      SYMBOLS "[\\r\\n]*|" LINES}, 0, "moonshotai/Kimi-K2-Base tokenization_kimi.py; KIMI_K2"},
    {"bailingmoe bailingmoe2 llada-moe",
     {"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|" LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|"
      S "*[\\r\\n]|" BLANKS}, 0, "BAILINGMOE"},
    {"seed-coder",
     {CONTRACTION "|" LETTERS "|\\p{N}| ?[^" SPACES "\\p{L}\\p{N}\\r\\n]+|" LINES},
     0, "ByteDance-Seed/Seed-Coder-8B-Base tokenizer.json; SEED_CODER"},
    {"exaone-moe",
     {CONTRACTION "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}|"
      SYMBOLS "[\\r\\n/]?|" S "*[\\r\\n]|" BLANKS}, 0, "EXAONE_MOE"},
    {"minicpm5",
     {"\\p{N}{1,3}", CONTRACTION "|" LETTERS "|\\p{N}+|" SYMBOLS "[\\r\\n]*|" LINES},
     PRE_IGNORE_MERGES, "openbmb/MiniCPM5-1B tokenizer.json; MINICPM5"},
    {"laguna", {"[^\\n]+|\\n+", QWEN2}, 0, "LAGUNA"},
    {"jais-2",
     {CONTRACTION "|" LETTERS "|\\p{N}{1,3}|" SYMBOLS "[\\r\\n]*|" NOT_AFTER_SPACES S "*[\\r\\n]+|" SPACES_BY_HALVES},
     0, "inceptionai/Jais-2-8B-Chat tokenizer.json; JAIS2"},
    {"ufakzeka", {LETTERS "|\\p{N}|" SYMBOLS "[\\r\\n]*|" LINES}, 0, "UFAKZEKA"},
    {"spark2_5",
     {"\\p{N}{1,3}", HAN_KANA, DEEPSEEK_LATIN "| ?[\\p{P}\\p{S}]+|[\\r\\n]|" BLANKS, "\\p{N}"},
     0, "SPARK2_5"},
    {"chameleon",
     {"<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]", GPT2},
     PRE_ADD_BOS, "facebook/chameleon-7b tokenizer.json; CHAMELEON"},
    {"tiny_aya cohere2moe",
     {"(?<!\\p{Nd})\\p{Nd}++(?![\\p{L}\\p{M}\\p{N}\\p{Pc}])", GPT4O("\\p{N}{1,3}")},
     PRE_THREES, "CohereLabs/tiny-aya-base tokenizer.json; TINY_AYA"},
    {"superbpe", {"\\p{Nd}++", "\\p{N}+"}, PRE_THREES, "UW/OLMo2-8B-SuperBPE-t180k tokenizer.json; SUPERBPE"},
    {"afmoe", {"\\p{Nd}++", AFMOE_SCRIPTS, DEEPSEEK3}, PRE_THREES, "arcee-ai/Trinity tokenizer.json; AFMOE"},
};

/* clang-format on */

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
