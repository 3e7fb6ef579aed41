"""The fully connected CRF: kernels, compatibility, inference, gradients."""
