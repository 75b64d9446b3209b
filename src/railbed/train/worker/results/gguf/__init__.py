"""GGUF, the file format of llama.cpp and Ollama: one file with weights, settings and tokenizer.

Read `convert.py` first.

container      the format itself; fp32, fp16, bf16, and 8 bits in blocks of 32
architecture   what a type of model is there; architectures lists them: llama, gemma, phi3 have their details
rotary         settings of rotary positions
tokenizerfile  what a tokenizer.json has; its tokens and their types
vocabulary     scores and spaces of tokenizers with ▁ and bytes; a tokenizer as llama.cpp wants it
convert        a model's folder to a file
"""
