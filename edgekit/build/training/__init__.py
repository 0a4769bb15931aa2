"""One small trainer, used by every stage that learns: fit, distil, recover from pruning, quantization-aware training."""
