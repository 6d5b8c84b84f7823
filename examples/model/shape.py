"""The shape of the small model, for training and for the GGUF file."""

# Every length of a matrix row is a multiple of 32, which is Q8_0's block.
CONFIG = dict(n_layers=4, n_embd=192, n_ff=512, n_heads=6, n_kv_heads=2,
              head_dim=32, context=512, rope_base=10000.0, norm_eps=1e-5)
