// The logits that llama.cpp computes of fixed tokens: logits MODEL LAYERS ATTENTION OUTPUT. LAYERS
// is how many are given to GPUs, ATTENTION 1 for FLASH_ATTN_EXT. Twenty tokens are a prompt, ten
// more come one by one; OUTPUT has a row of f32 for each of these eleven steps.
#include <cstdio>
#include <cstdlib>
#include <llama.h>
#include <vector>

int main(int count, char **words) {
  if (count != 5)
    return 2;
  ggml_backend_load_all();
  auto model_options = llama_model_default_params();
  model_options.n_gpu_layers = std::atoi(words[2]);
  llama_model *model = llama_model_load_from_file(words[1], model_options);
  auto options = llama_context_default_params();
  options.n_ctx = 128;
  options.n_threads = options.n_threads_batch = 2;
  options.flash_attn_type =
      std::atoi(words[3]) ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  options.offload_kqv = options.op_offload = model_options.n_gpu_layers > 0;
  llama_context *context = model ? llama_init_from_model(model, options) : nullptr;
  std::FILE *output = std::fopen(words[4], "wb");
  if (!context || !output)
    return 1;
  const int all = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> tokens;
  for (int i = 0; i < 30; ++i) {
    tokens.push_back((37 * i + 11) % all);
    if (i < 19)
      continue;
    if (llama_decode(context, llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()))))
      return 1;
    std::fwrite(llama_get_logits_ith(context, -1), sizeof(float), static_cast<std::size_t>(all),
                output);
    tokens.clear();
  }
  return std::fclose(output);
}
