"""A model folder in the layout of Hugging Face, as far as it can be understood without torch. Read `folder.py` first.

files   names and shapes of the tensors in safetensors files; the text files of a folder: settings, chat template
folder  the model: sizes, architecture, files to copy and their hash
lora    which layers adapters are added to, and how many parameters they have
"""
