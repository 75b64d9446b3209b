"""GPT-2 as published: learned positions, layer norm first, GELU by tanh, the head tied to the embedding.

Parameters are fp32 and are the master copy. The embedding's output has the type of the computation, and every layer
casts its weights to the type of its input: in bf16 the residual stream is bf16 too, without autocast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it
from torch.utils.checkpoint import checkpoint

from railbed.train.models.gpt import GptSettings
from railbed.train.worker.models.base import BuildOptions, LanguageModel, Scorer
from railbed.train.worker.models.loss import next_token_loss

PADDED_TO = 128
"""A vocabulary that is a multiple of this keeps the matrix units of a GPU busy."""
TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
"""Weights that transformers stores as [in, out]."""


class Linear(nn.Linear):
    """A linear layer that computes in the type of its input."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 -- as torch names it
        """Return input · weightᵀ + bias."""
        return F.linear(input, self.weight.to(input.dtype), self.bias.to(input.dtype))


class LayerNorm(nn.LayerNorm):
    """Layer norm in the type of its input."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 -- as torch names it
        """Return the normalised input."""
        weight, bias = self.weight.to(input.dtype), self.bias.to(input.dtype)
        return F.layer_norm(input, self.normalized_shape, weight, bias, self.eps)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, settings: GptSettings) -> None:
        super().__init__()
        self.heads, self.dropout = settings.heads, settings.dropout
        self.c_attn = Linear(settings.width, 3 * settings.width)
        self.c_proj = Linear(settings.width, settings.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of every position, which attends to itself and those before it."""
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = self.c_proj(y.transpose(1, 2).reshape(batch, length, width))
        return F.dropout(y, self.dropout, self.training)


class TransformerBlock(nn.Module):
    """One layer."""

    def __init__(self, settings: GptSettings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.ln_1 = LayerNorm(settings.width)
        self.attn = Attention(settings)
        self.ln_2 = LayerNorm(settings.width)
        self.c_fc = Linear(settings.width, 4 * settings.width)
        self.c_proj = Linear(4 * settings.width, settings.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this layer."""
        x = x + self.attn(self.ln_1(x))
        y = self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, self.training)


class Gpt(LanguageModel):
    """GPT-2."""

    settings: GptSettings

    def __init__(self, settings: GptSettings, options: BuildOptions) -> None:
        super().__init__(settings, options)
        self.vocabulary = settings.vocabulary_size
        self.compute, self.gradient_checkpointing = options.compute, options.gradient_checkpointing
        rows = -(-self.vocabulary // PADDED_TO) * PADDED_TO if options.padded else self.vocabulary
        self.wte = nn.Embedding(rows, settings.width)
        self.wpe = nn.Embedding(settings.context, settings.width)
        self.h = nn.ModuleList(TransformerBlock(settings) for _ in range(settings.layers))
        self.ln_f = LayerNorm(settings.width)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the input of the head, [batch, length, width]."""
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        x = F.dropout(x.to(self.compute), self.settings.dropout, self.training)
        recompute = self.gradient_checkpointing and self.training
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
        normed: torch.Tensor = self.ln_f(x)
        return normed

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the score of every token of the vocabulary."""
        return F.linear(hidden, self.wte.weight[: self.vocabulary].to(hidden.dtype))

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor, positions: torch.Tensor | None = None) -> torch.Tensor:
        """Return the sum of the losses of all targets, in fp32; its sequences are windows, without documents."""
        assert positions is None
        hidden = self.hidden(tokens).flatten(0, 1)
        return next_token_loss(hidden, self.wte.weight, targets.flatten(), self.vocabulary)

    def next_scores(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores after the last token."""
        return self.logits(self.hidden(tokens)[0, -1])

    def compiled_parts(self) -> nn.ModuleList:
        """Return the layers."""
        return self.h

    @torch.no_grad()
    def clear_padding(self) -> None:
        """Set the rows that no token uses to zero."""
        self.wte.weight[self.vocabulary :].zero_()

    def without_padding(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor without the rows that no token uses."""
        return tensor[: self.vocabulary] if name == "wte.weight" else tensor

    def export_tensors(self) -> dict[str, torch.Tensor]:
        """Return the parameters as transformers' GPT2LMHeadModel names and stores them."""
        tensors = {}
        for name, tensor in self.saved_tensors().items():
            exported = _exported_name(name)
            tensors[exported] = (tensor.T if exported.endswith(TRANSPOSED) else tensor).cpu().contiguous()
        return tensors

    def load_exported(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Copy the parameters of exported weights; raise CheckpointDamaged if they do not match the model."""
        ours = {_exported_name(name): name for name in self.saved_tensors()}
        self.load(
            {
                ours.get(name, name): tensor.T if name.endswith(TRANSPOSED) else tensor
                for name, tensor in tensors.items()
            }
        )

    def scorer(self) -> Scorer:
        """Return a scorer with a cache of keys and values."""
        return GptScorer(self)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Initialise as the original does: N(0, 0.02), smaller for what adds to the residual stream."""
        generator = torch.Generator().manual_seed(seed)
        residual = 0.02 / math.sqrt(2 * self.settings.layers)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "ln_" in name:
                parameter.fill_(1.0)
            else:
                deviation = residual if name.endswith("c_proj.weight") else 0.01 if name == "wpe.weight" else 0.02
                rows = self.vocabulary if name == "wte.weight" else len(parameter)
                values = torch.empty(rows, parameter.shape[1]).normal_(0.0, deviation, generator=generator)
                parameter[:rows].copy_(values)


def _exported_name(name: str) -> str:
    exported = "transformer." + name.replace(".c_fc.", ".mlp.c_fc.").replace(".c_proj.", ".mlp.c_proj.")
    return exported.replace(".attn.mlp.", ".attn.")


class GptScorer(Scorer):
    """Scores the next token; the keys and values of the tokens before it are computed once."""

    def __init__(self, model: Gpt) -> None:
        self._model = model.eval()
        settings, embedding = model.settings, model.wte.weight
        shape = (2, settings.layers, 1, settings.heads, settings.context, settings.width // settings.heads)
        self._keys, self._values = torch.empty(shape, dtype=model.compute, device=embedding.device)
        self._length = 0
        self.context = settings.context

    def restart(self) -> None:
        """Forget all tokens."""
        self._length = 0

    @torch.inference_mode()
    def scores(self, tokens: Sequence[int]) -> torch.Tensor:
        """Return the scores after some more tokens: several only at the beginning."""
        model = self._model
        span = slice(self._length, self._length + len(tokens))
        x = model.wte(torch.tensor([tokens], device=model.wte.weight.device)) + model.wpe.weight[span]
        x = x.to(model.compute)
        for layer, block in enumerate(model.h):
            assert isinstance(block, TransformerBlock)
            x = x + self._attend(layer, block.attn, block.ln_1(x), span)
            x = x + block.c_proj(F.gelu(block.c_fc(block.ln_2(x)), approximate="tanh"))
        self._length = span.stop
        return model.logits(model.ln_f(x[0, -1])).float()

    def _attend(self, layer: int, attention: Attention, x: torch.Tensor, span: slice) -> torch.Tensor:
        _, length, width = x.shape
        q, k, v = attention.c_attn(x).view(1, length, 3, attention.heads, -1).permute(2, 0, 3, 1, 4)
        self._keys[layer][:, :, span], self._values[layer][:, :, span] = k, v
        keys, values = self._keys[layer][:, :, : span.stop], self._values[layer][:, :, : span.stop]
        y = F.scaled_dot_product_attention(q, keys, values, is_causal=length > 1)
        output: torch.Tensor = attention.c_proj(y.transpose(1, 2).reshape(1, length, width))
        return output


MODULE = Gpt
