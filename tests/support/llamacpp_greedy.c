/* Loads a GGUF file with llama.cpp and prints, as JSON: the tokens of a prompt, the scores after it, and greedy tokens.
   Without a prompt: the tokens of each text on standard input, and the text that each of them stands for. Texts end with
   a zero byte. */

#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TOKENS 4096
#define MOST_BYTES (1 << 20)

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static int best(const float *scores, int count) {
    int winner = 0;
    for (int token = 1; token < count; token++)
        if (scores[token] > scores[winner]) winner = token;
    return winner;
}

static void print_tokens(const llama_token *tokens, int count) {
    printf("[");
    for (int at = 0; at < count; at++) printf(at ? ", %d" : "%d", tokens[at]);
    printf("]");
}

static int tokenize_input(const char *file) {
    static char texts[MOST_BYTES], piece[MOST_TOKENS];
    static llama_token tokens[MOST_TOKENS];
    struct llama_model_params settings = llama_model_default_params();
    settings.vocab_only = true;
    struct llama_model *model = llama_model_load_from_file(file, settings);
    if (!model) return 1;
    const struct llama_vocab *vocabulary = llama_model_get_vocab(model);
    size_t size = fread(texts, 1, MOST_BYTES, stdin);
    printf("{\"tokens\": [");
    for (size_t at = 0; at < size; at += strlen(texts + at) + 1) {
        int length = (int)strlen(texts + at);
        int count = llama_tokenize(vocabulary, texts + at, length, tokens, MOST_TOKENS, true, true);
        if (count < 0) return 1;
        if (at) printf(", ");
        print_tokens(tokens, count);
    }
    printf("], \"pieces\": [");
    for (llama_token token = 0; token < llama_vocab_n_tokens(vocabulary); token++) {
        int count = llama_token_to_piece(vocabulary, token, piece, MOST_TOKENS, 0, true);
        printf(token ? ", \"" : "\"");
        for (int at = 0; at < count; at++) printf("%02x", (unsigned char)piece[at]);
        printf("\"");
    }
    printf("]}\n");
    llama_model_free(model);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 4) return 2;
    llama_log_set(quiet, NULL);
    llama_backend_init();
    if (argc == 2) return tokenize_input(argv[1]);
    const char *prompt = argv[2];
    int wanted = atoi(argv[3]);
    struct llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) return 1;
    struct llama_context_params settings = llama_context_default_params();
    settings.n_ctx = 0; /* that of the model */
    settings.n_threads = settings.n_threads_batch = 1;
    settings.type_k = settings.type_v = GGML_TYPE_F32;
    struct llama_context *context = llama_init_from_model(model, settings);
    if (!context) return 1;
    const struct llama_vocab *vocabulary = llama_model_get_vocab(model);
    int rows = llama_vocab_n_tokens(vocabulary);
    llama_token tokens[MOST_TOKENS];
    int length = llama_tokenize(vocabulary, prompt, (int)strlen(prompt), tokens, MOST_TOKENS, true, true);
    if (length < 1) return 1;
    printf("{\"prompt\": ");
    print_tokens(tokens, length);
    if (llama_decode(context, llama_batch_get_one(tokens, length))) return 1;
    const float *scores = llama_get_logits_ith(context, -1);
    printf(", \"scores\": [");
    for (int token = 0; token < rows; token++) printf(token ? ", %.9g" : "%.9g", scores[token]);
    printf("], \"greedy\": [");
    for (int count = 0; count < wanted; count++) {
        llama_token next = best(llama_get_logits_ith(context, -1), rows);
        printf(count ? ", %d" : "%d", next);
        if (llama_decode(context, llama_batch_get_one(&next, 1))) return 1;
    }
    printf("]}\n");
    llama_free(context);
    llama_model_free(model);
    return 0;
}
