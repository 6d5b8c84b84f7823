/* Chat templates: how the families of the field write a conversation.
 *
 * Marks are looked for in the model's template after its string escapes were resolved and adjacent
 * literals joined ('<|user|>' + '\n' is '<|user|>\n').  Rows are tried in order, so a special case
 * stands before the general one.  Names are those of llama.cpp's --chat-template where it has one
 * for the same thing.  Sources: chat_template in tokenizer_config.json of the model named. */
#include "vocab/chat_table.h"

#define BOS CHAT_BOS
#define EOS CHAT_EOS

/* clang-format off */

/* DeepSeek's marks, whose bars and underscores are not those of ASCII. */
#define BAR     "\xef\xbd\x9c"
#define LOW     "\xe2\x96\x81"
#define DS_USER "<" BAR "User" BAR ">"
#define DS_BOT  "<" BAR "Assistant" BAR ">"
#define DS_EOS  "<" BAR "end" LOW "of" LOW "sentence" BAR ">"
#define HY(x)   "<" BAR "hy_" x BAR ">"

/* "User", "Assistant" in Russian; "user" in Chinese. */
#define RU_USER "\xd0\x9f\xd0\xbe\xd0\xbb\xd1\x8c\xd0\xb7\xd0\xbe\xd0\xb2\xd0\xb0\xd1\x82\xd0\xb5\xd0\xbb\xd1\x8c"
#define RU_BOT  "\xd0\x90\xd1\x81\xd1\x81\xd0\xb8\xd1\x81\xd1\x82\xd0\xb5\xd0\xbd\xd1\x82"
#define ZH_USER "<\xe7\x94\xa8\xe6\x88\xb7>"

/* The same piece for every role, but for the role's name. */
#define EACH(a, b, after) {{a "system" b, after}, {a "user" b, after}, {a "assistant" b, after}}

#define SYS_IN_USER {"<<SYS>>\n", "\n<</SYS>>\n\n"}
#define LLAMA2_FLAGS (CHAT_TRIM_USER | CHAT_TRIM_ASSISTANT | CHAT_TRIM_JOINED | CHAT_SYSTEM_IN_FIRST)
#define LLAMA2_PRESET {"elif true == true and not '<<SYS>>' in messages[0]['content'] %}" \
                       "{% set loop_messages = messages %}{% set system_message = '", "' %}", NULL}
#define LLAMA3(x) "<|start_header_id|>" x "<|end_header_id|>\n\n"

#define OLMO3_NOTE "You do not currently have access to any functions. <functions></functions><|im_end|>\n"
#define OLMO3_NOTE_AFTER " " OLMO3_NOTE

const struct chat_template chat_table[] = {
    {"phi4", {"<|im_start|>", "<|im_sep|>"}, {0}, "",
     EACH("<|im_start|>", "<|im_sep|>", "<|im_end|>"), {"<|im_start|>assistant<|im_sep|>"},
     CHAT_SYSTEM_ANYWHERE, "microsoft/phi-4", {0}},
    /* Think's system prompts end with a note on functions, Instruct's default only. */
    {"olmo3-think", {"<|im_start|>", "'" OLMO3_NOTE_AFTER "'"}, {0}, "",
     {{"<|im_start|>system\n", OLMO3_NOTE_AFTER}, {"<|im_start|>user\n", "<|im_end|>\n"},
      {"<|im_start|>assistant\n", "<|im_end|>\n"}}, {"<|im_start|>assistant\n<think>"},
     CHAT_SYSTEM_ANYWHERE, "allenai/Olmo-3-7B-Think", {"<|im_start|>system\n", "<|im_end|>\n", "<|im_end|>\n"}},
    {"olmo3", {"<|im_start|>", "'" OLMO3_NOTE "'"}, {0}, "",
     EACH("<|im_start|>", "\n", "<|im_end|>\n"), {"<|im_start|>assistant\n"},
     CHAT_SYSTEM_ANYWHERE, "allenai/Olmo-3-7B-Instruct",
     {"<|im_start|>system\n", "' -}}{%- if tools is none", OLMO3_NOTE}},
    /* SmolVLM writes roles as words; SmolLM 3 computes its system turn. */
    {"chatml", {"<|im_start|>"}, {"<end_of_utterance>", "## Metadata"}, "",
     EACH("<|im_start|>", "\n", "<|im_end|>\n"),
     {"<|im_start|>assistant\n<think>\n", "<|im_start|>assistant\n<think>", "<|im_start|>assistant\n"},
     CHAT_SYSTEM_ANYWHERE, "Qwen/Qwen2.5-7B-Instruct, teknium/OpenHermes-2.5-Mistral-7B, Qwen/QwQ-32B", {0}},

    {"mistral-v7", {"[INST] ", "[SYSTEM_PROMPT] "}, {0}, "",
     {{"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, {"[INST] ", "[/INST]"}, {" ", EOS}}, {""},
     CHAT_SYSTEM_ANYWHERE, "mistralai/Mistral-Large-Instruct-2411", {0}},
    {"mistral-v7-tekken", {"[INST]", "[SYSTEM_PROMPT]"}, {0}, "",
     {{"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, {"[INST]", "[/INST]"}, {"", EOS}}, {""},
     CHAT_SYSTEM_ANYWHERE, "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
     {"set default_system_message = \"", "\" %}", NULL}},
    {"mistral-v1", {"' [INST] '"}, {0}, "",
     {{"", "\n\n"}, {" [INST] ", " [/INST]"}, {" ", EOS}}, {""},
     CHAT_SYSTEM_IN_FIRST, "mistralai/Mistral-7B-Instruct-v0.2; mistralai/cookbook, chat_templates.md", {0}},
    {"mistral-v3-tekken", {"[AVAILABLE_TOOLS]", "\"[INST]\""}, {0}, "",
     {{"", "\n\n"}, {"[INST]", "[/INST]"}, {"", EOS}}, {""},
     CHAT_SYSTEM_IN_LAST, "mistralai/Mistral-Nemo-Instruct-2407", {0}},
    {"mistral-v3", {"[AVAILABLE_TOOLS]", "[INST] "}, {0}, "",
     {{"", "\n\n"}, {"[INST] ", "[/INST]"}, {" ", EOS}}, {""},
     CHAT_SYSTEM_IN_LAST | CHAT_TRIM_ASSISTANT, "mistralai/Mistral-Large-Instruct-2407", {0}},
    {"llama2 llama2-sys-bos", {"[INST]", "<<SYS>>", "bos_token + '[INST]"}, {0}, "",
     {SYS_IN_USER, {BOS "[INST] ", " [/INST]"}, {" ", " " EOS}}, {""},
     LLAMA2_FLAGS, "meta-llama/Llama-2-7b-chat-hf", LLAMA2_PRESET},
    {"llama2-sys llama2-sys-strip", {"[INST]", "<<SYS>>"}, {0}, "",
     {SYS_IN_USER, {"[INST] ", " [/INST]"}, {" ", " " EOS}}, {""},
     LLAMA2_FLAGS, "bofenghuang/vigogne-2-70b-chat", LLAMA2_PRESET},
    {"mistral-v0.1", {"[INST]", "eos_token + ' '"}, {0}, "",
     {{"", "\n\n"}, {"[INST] ", " [/INST]"}, {"", EOS " "}}, {""},
     CHAT_SYSTEM_IN_FIRST, "mistralai/Mistral-7B-Instruct-v0.1", {0}},
    {"mistral", {"[INST]"}, {0}, "",
     {{"", "\n\n"}, {"[INST] ", " [/INST]"}, {"", EOS}}, {""},
     CHAT_SYSTEM_IN_FIRST, "mistralai/Mistral-7B-Instruct-v0.2, before v1", {0}},

    {"phi3", {"<|assistant|>\n", "<|end|>"}, {0}, "",
     EACH("<|", "|>\n", "<|end|>\n"), {"<|assistant|>\n"},
     CHAT_SYSTEM_ANYWHERE, "microsoft/Phi-3.5-mini-instruct", {0}},
    {"phi4-mini", {"<|assistant|>", "<|end|>"}, {0}, "",
     EACH("<|", "|>", "<|end|>"), {"<|assistant|>"},
     CHAT_SYSTEM_AFTER_PRESET, "microsoft/Phi-4-mini-instruct, microsoft/Phi-4-mini-reasoning",
     {"{{ '<|system|>", "' }}", NULL}},
    /* GLM 4.5 and later write thoughts. */
    {"glm4 chatglm4", {"[gMASK]<sop>"}, {"<think>"}, "[gMASK]<sop>",
     EACH("<|", "|>\n", ""), {"<|assistant|>\n", "<|assistant|>"},
     CHAT_SYSTEM_ANYWHERE, "THUDM/glm-4-9b-chat", {0}},
    {"chatglm3", {"[gMASK]sop"}, {0}, "[gMASK]sop",
     EACH("<|", "|>\n ", ""), {"<|assistant|>"},
     CHAT_SYSTEM_ANYWHERE, "THUDM/chatglm3-6b", {0}},
    {"tulu falcon3 olmo2", {"<|user|>\n' + message['content'] + '\n'"}, {0}, "",
     {{"<|system|>\n", "\n"}, {"<|user|>\n", "\n"}, {"<|assistant|>\n", EOS "\n"}}, {"<|assistant|>\n"},
     CHAT_SYSTEM_ANYWHERE, "allenai/OLMo-2-1124-7B-Instruct, tiiuae/Falcon3-7B-Instruct", {0}},
    {"glmedge", {"<|user|>\n{{ item['content'] }}"}, {0}, "",
     EACH("<|", "|>\n", ""), {"<|assistant|>"},
     CHAT_SYSTEM_ANYWHERE, "THUDM/glm-edge-1.5b-chat", {0}},
    {"zephyr", {"<|assistant|>", "message['content']", "eos_token"}, {0}, "",
     EACH("<|", "|>\n", EOS "\n"), {"<|assistant|>\n"},
     CHAT_SYSTEM_ANYWHERE | CHAT_TRIM_ALL | CHAT_TRIM_SOME, "HuggingFaceH4/zephyr-7b-beta, TinyLlama/TinyLlama-1.1B-Chat-v1.0", {0}},
    {"zephyr", {"<|assistant|>", "<|endoftext|>"}, {0}, "",
     EACH("<|", "|>\n", "<|endoftext|>\n"), {"<|assistant|>\n"},
     CHAT_SYSTEM_ANYWHERE | CHAT_TRIM_ALL | CHAT_TRIM_SOME, "stabilityai/stablelm-2-zephyr-1_6b", {0}},

    {"monarch", {"bos_token + message['role']"}, {0}, "",
     EACH(BOS, "\n", EOS "\n"), {BOS "assistant\n"},
     CHAT_SYSTEM_ANYWHERE, "mlabonne/AlphaMonarch-7B", {0}},
    {"gemma", {"<start_of_turn>"}, {0}, "",
     {{"", "\n\n"}, {"<start_of_turn>user\n", "<end_of_turn>\n"}, {"<start_of_turn>model\n", "<end_of_turn>\n"}},
     {"<start_of_turn>model\n"},
     CHAT_SYSTEM_IN_FIRST | CHAT_TRIM_USER | CHAT_TRIM_ASSISTANT, "google/gemma-2-2b-it, google/gemma-3-4b-it", {0}},
    {"orion", {"'\n\nAssistant: ' + eos_token"}, {0}, "",
     {{"", "\n\n"}, {"Human: ", "\n\nAssistant: " EOS}, {"", EOS}}, {""},
     CHAT_SYSTEM_IN_FIRST, "OrionStarAI/Orion-14B-Chat", {0}},
    {"openchat", {"GPT4 Correct "}, {0}, "",
     {{"GPT4 Correct System: ", "<|end_of_turn|>"}, {"GPT4 Correct User: ", "<|end_of_turn|>"},
      {"GPT4 Correct Assistant: ", "<|end_of_turn|>"}}, {"GPT4 Correct Assistant:"},
     CHAT_SYSTEM_ANYWHERE, "openchat/openchat-3.5-0106", {0}},
    {"vicuna-orca", {"SYSTEM: ", "USER: ", "ASSISTANT:"}, {0}, "",
     {{"SYSTEM: ", "\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", EOS "\n"}}, {"ASSISTANT:"},
     CHAT_SYSTEM_ANYWHERE, "llama.cpp, vicuna-orca", {0}},
    {"vicuna", {"USER: ", "ASSISTANT:"}, {0}, "",
     {{"", "\n\n"}, {"USER: ", "\n"}, {"ASSISTANT: ", EOS "\n"}}, {"ASSISTANT:"},
     CHAT_SYSTEM_ANYWHERE, "llama.cpp, vicuna; lmsys/vicuna-13b-v1.5", {0}},
    {"deepseek", {"### Instruction:", "### Response:", "<|EOT|>"}, {0}, "",
     {{"", ""}, {"### Instruction:\n", "\n"}, {"### Response:\n", "\n<|EOT|>\n"}}, {"### Response:\n"},
     0, "deepseek-ai/deepseek-coder-6.7b-instruct",
     {"{%- if not ns.found -%}\n{{'", "'}}", NULL}},
    {"deepseek2", {"'Assistant: ' + message['content'] + eos_token"}, {0}, "",
     {{"", "\n\n"}, {"User: ", "\n\n"}, {"Assistant: ", EOS}}, {"Assistant:"},
     CHAT_SYSTEM_ANYWHERE, "deepseek-ai/DeepSeek-V2-Chat, deepseek-ai/deepseek-llm-7b-chat", {0}},
    /* DeepSeek V3.1 has a switch for its thoughts. */
    {"deepseek3", {DS_USER, DS_BOT}, {"thinking is defined"}, "",
     {{"", ""}, {DS_USER, ""}, {DS_BOT, DS_EOS}}, {DS_BOT "<think>\n", DS_BOT},
     0, "deepseek-ai/DeepSeek-V3, deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", {0}},
    /* Command R7B and later have a preamble and sections. */
    {"command-r", {"<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"}, {"<|START_RESPONSE|>"}, "",
     {{"<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
      {"<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"},
      {"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"}},
     {"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>"},
     CHAT_TRIM_USER | CHAT_TRIM_ASSISTANT, "CohereForAI/c4ai-command-r-plus", {0}},

    /* The date is the one that the template itself falls back to. */
    {"llama3.1 llama3.2 llama3.3", {"<|start_header_id|>", "Cutting Knowledge Date: December 2023"}, {0}, "",
     {{LLAMA3("system") "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n", "<|eot_id|>"},
      {LLAMA3("user"), "<|eot_id|>"}, {LLAMA3("assistant"), "<|eot_id|>"}}, {LLAMA3("assistant")},
     CHAT_SYSTEM_ALWAYS | CHAT_TRIM_ALL, "meta-llama/Llama-3.2-3B-Instruct, meta-llama/Llama-3.3-70B-Instruct", {0}},
    {"llama3", {"<|start_header_id|>", "<|end_header_id|>"}, {0}, "",
     {{LLAMA3("system"), "<|eot_id|>"}, {LLAMA3("user"), "<|eot_id|>"}, {LLAMA3("assistant"), "<|eot_id|>"}},
     {LLAMA3("assistant")},
     CHAT_SYSTEM_ANYWHERE | CHAT_TRIM_ALL, "meta-llama/Meta-Llama-3-8B-Instruct", {0}},
    {"llama4", {"<|header_start|>", "<|header_end|>"}, {0}, "",
     EACH("<|header_start|>", "<|header_end|>\n\n", "<|eot|>"), {"<|header_start|>assistant<|header_end|>\n\n"},
     CHAT_SYSTEM_ANYWHERE | CHAT_TRIM_SYSTEM, "meta-llama/Llama-4-Scout-17B-16E-Instruct", {0}},
    /* Some releases of Granite 4 write a default, others only define it. */
    {"granite", {"<|start_of_role|>", "<|end_of_role|>' + ns.default_system_message + '"}, {0}, "",
     EACH("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"), {"<|start_of_role|>assistant<|end_of_role|>"},
     CHAT_SYSTEM_ANYWHERE, "ibm-granite/granite-4.0-h-tiny", {"set g4_default_system_message = '", "' %}", NULL}},
    {"granite", {"<|start_of_role|>", "<|end_of_role|>"}, {0}, "",
     EACH("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"), {"<|start_of_role|>assistant<|end_of_role|>"},
     CHAT_SYSTEM_ANYWHERE, "ibm-granite/granite-3.0-8b-instruct", {0}},
    {"minicpm", {ZH_USER "'"}, {0}, "",
     {{"", ""}, {ZH_USER, "<AI>"}, {"", ""}}, {""},
     CHAT_SYSTEM_ANYWHERE | CHAT_TRIM_ALL, "openbmb/MiniCPM-2B-dpo", {0}},
    {"exaone3", {"[|assistant|]", "[|endofturn|]"}, {"[|tool|]"}, "",
     {{"[|system|]", "[|endofturn|]\n"}, {"[|user|]", "\n"}, {"[|assistant|]", "[|endofturn|]\n"}}, {"[|assistant|]"},
     CHAT_SYSTEM_ANYWHERE, "LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct", {0}},
    {"megrez", {"<|role_start|>", "<|role_end|>"}, {0}, "",
     EACH("<|role_start|>", "<|role_end|>", "<|turn_end|>"), {"<|role_start|>assistant<|role_end|>"},
     CHAT_SYSTEM_ANYWHERE, "Infinigence/Megrez-3B-Instruct", {0}},
    {"solar", {"### System:\n", "### User:\n", "### Assistant:\n"}, {0}, "",
     {{"### System:\n", "\n\n"}, {"### User:\n", "\n\n"}, {"### Assistant:\n", ""}}, {"### Assistant:\n"},
     CHAT_SYSTEM_ANYWHERE, "upstage/SOLAR-10.7B-Instruct-v1.0", {0}},
    {"gigachat", {"message['role'] + additional_special_tokens[0] + message['content']"}, {0}, "",
     {{"", "<|message_sep|>"},
      {"user<|role_sep|>", "<|message_sep|>available functions<|role_sep|>[]<|message_sep|>"},
      {"assistant<|role_sep|>", "<|message_sep|>"}}, {"assistant<|role_sep|>"},
     0, "ai-sage/GigaChat-20B-A3B-instruct", {0}},
    {"yandex", {" " RU_BOT ":", "[SEP]"}, {0}, BOS,
     {{"", "\n\n"}, {" " RU_USER ": ", "\n\n"}, {" " RU_BOT ": ", "\n\n"}}, {" " RU_BOT ":[SEP]"},
     CHAT_SYSTEM_IN_FIRST, "yandex/YandexGPT-5-Lite-8B-instruct", {0}},
    {"bailing", {"<role>ASSISTANT</role>", "'HUMAN'"}, {0}, "",
     {{"<role>SYSTEM</role>", ""}, {"<role>HUMAN</role>", ""}, {"<role>ASSISTANT</role>", ""}},
     {"<role>ASSISTANT</role>"}, CHAT_SYSTEM_ANYWHERE, "inclusionAI/Ling-lite", {0}},
    {"dots1", {"<|userprompt|>", "<|endofuserprompt|>"}, {0}, "",
     {{"<|system|>", "<|endofsystem|>"}, {"<|userprompt|>", "<|endofuserprompt|>"},
      {"<|response|>", "<|endofresponse|>"}}, {"<|response|>"},
     CHAT_SYSTEM_ANYWHERE, "rednote-hilab/dots.llm1.inst", {0}},
    {"hunyuan-dense", {HY("place" LOW "holder" LOW "no" LOW "2"), HY("place" LOW "holder" LOW "no" LOW "3")}, {0},
     HY("begin" LOW "of" LOW "sentence"),
     {{"", HY("place" LOW "holder" LOW "no" LOW "3")}, {HY("User"), ""},
      {HY("Assistant"), HY("place" LOW "holder" LOW "no" LOW "2")}}, {HY("Assistant")},
     0, "tencent/Hunyuan-4B-Instruct", {0}},
    {"kimi-k2", {"<|im_assistant|>assistant<|im_middle|>"}, {"<think>"}, "",
     {{"<|im_system|>system<|im_middle|>", "<|im_end|>"}, {"<|im_user|>user<|im_middle|>", "<|im_end|>"},
      {"<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"}}, {"<|im_assistant|>assistant<|im_middle|>"},
     CHAT_SYSTEM_ANYWHERE, "moonshotai/Kimi-K2-Instruct", {0}},
};

/* clang-format on */

const size_t chat_table_length = sizeof chat_table / sizeof *chat_table;
