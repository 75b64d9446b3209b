"""GPT-2 as it was published: learned positions, layer norm first, GELU by tanh, the head tied to the embedding.

Parameters are fp32 and are the master copy. What is computed in is the type of the embedding's output: every layer
takes its weights in the type of its input, so that in bf16 the residual stream is bf16 as well, without autocast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it
from torch.utils.checkpoint import checkpoint

from railbed.train.worker.models.loss import next_token_loss

PADDED_TO = 128
"""A vocabulary that is a multiple of this keeps the matrix units of a GPU busy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the parameters are, and how they are used."""

    layers: int
    heads: int
    width: int
    context: int
    vocabulary: int
    dropout: float = 0.0
    padded: bool = False
    """Whether the embedding has rows that stand for no token. They are never read and never learn."""
    compute: torch.dtype = torch.float32
    gradient_checkpointing: bool = False

    @property
    def rows(self) -> int:
        """Return the rows of the embedding as it is in memory."""
        return -(-self.vocabulary // PADDED_TO) * PADDED_TO if self.padded else self.vocabulary


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

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.c_attn = Linear(shape.width, 3 * shape.width)
        self.c_proj = Linear(shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what every position gathered from those before it."""
        batch, length, width = x.shape
        q, k, v = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        y = self.c_proj(y.transpose(1, 2).reshape(batch, length, width))
        return F.dropout(y, self.dropout, self.training)


class Block(nn.Module):
    """One layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dropout = shape.dropout
        self.ln_1 = LayerNorm(shape.width)
        self.attn = Attention(shape)
        self.ln_2 = LayerNorm(shape.width)
        self.c_fc = Linear(shape.width, 4 * shape.width)
        self.c_proj = Linear(4 * shape.width, shape.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the residual stream after this layer."""
        x = x + self.attn(self.ln_1(x))
        y = self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        return x + F.dropout(y, self.dropout, self.training)


class Gpt(nn.Module):
    """The model; called with targets it returns the sum of the tokens' losses."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.wte = nn.Embedding(shape.rows, shape.width)
        self.wpe = nn.Embedding(shape.context, shape.width)
        self.h = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.ln_f = LayerNorm(shape.width)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return what stands before the head, [batch, length, width]."""
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        x = F.dropout(x.to(self.shape.compute), self.shape.dropout, self.training)
        for block in self.h:
            if self.shape.gradient_checkpointing and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        normed: torch.Tensor = self.ln_f(x)
        return normed

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the score of every token of the vocabulary."""
        return F.linear(hidden, self.wte.weight[: self.shape.vocabulary].to(hidden.dtype))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the sum of the losses of all targets, in fp32."""
        return self.loss(tokens, targets)

    def loss(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the same without DDP and without the compiler, for evaluation."""
        hidden = self.hidden(tokens).flatten(0, 1)
        return next_token_loss(hidden, self.wte.weight, targets.flatten(), self.shape.vocabulary)

    def parameter_count(self) -> int:
        """Return the number of parameters of the model as published: without rows that stand for no token."""
        padding = (self.shape.rows - self.shape.vocabulary) * self.shape.width
        return sum(parameter.numel() for parameter in self.parameters()) - padding

    def flops_per_token(self) -> float:
        """Return the floating-point operations that training takes for a token: 6 N + 12 · layers · width · context."""
        matrix_parameters = self.parameter_count() - self.wpe.weight.numel()
        return 6.0 * matrix_parameters + 12.0 * self.shape.layers * self.shape.width * self.shape.context

    @classmethod
    def empty(cls, shape: Shape, device: torch.device) -> Gpt:
        """Return a model whose parameters hold nothing yet: they are initialised, loaded, or received."""
        with torch.device("meta"):
            model = cls(shape)
        model.to_empty(device=device)
        with torch.no_grad():
            model.wte.weight[shape.vocabulary :].zero_()
        return model

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Fill the parameters as the original does: N(0, 0.02), what writes to the residual stream scaled down."""
        generator = torch.Generator().manual_seed(seed)
        residual = 0.02 / math.sqrt(2 * self.shape.layers)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
            elif "ln_" in name:
                parameter.fill_(1.0)
            else:
                deviation = residual if name.endswith("c_proj.weight") else 0.01 if name == "wpe.weight" else 0.02
                rows = self.shape.vocabulary if name == "wte.weight" else len(parameter)
                values = torch.empty(rows, parameter.shape[1]).normal_(0.0, deviation, generator=generator)
                parameter[:rows].copy_(values)
