"""GGUF, the file format of llama.cpp and Ollama: one file with weights, settings and tokenizer.

container       the format itself
number_types    fp32, fp16, bf16, and 8 bits in blocks of 32
architectures   names of tensors and settings there, for each type of model
vocabulary      a tokenizer.json as llama.cpp wants it
convert         a model's folder to a file
"""
