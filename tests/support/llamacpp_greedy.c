/* Loads a GGUF file with llama.cpp and prints, as JSON: the tokens of a prompt, the scores after it, and greedy tokens. */

#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TOKENS 512

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

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    const char *prompt = argv[2];
    int wanted = atoi(argv[3]);
    llama_log_set(quiet, NULL);
    llama_backend_init();
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
    printf("{\"prompt\": [");
    for (int at = 0; at < length; at++) printf(at ? ", %d" : "%d", tokens[at]);
    if (llama_decode(context, llama_batch_get_one(tokens, length))) return 1;
    const float *scores = llama_get_logits_ith(context, -1);
    printf("], \"scores\": [");
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
