"""A model folder in the layout of Hugging Face, as far as it can be understood without torch.

headers   names and shapes of the tensors in safetensors files
folder    config.json and the weights: sizes, architecture, files to copy
lora      which layers adapters are added to, and how many parameters they have
"""
