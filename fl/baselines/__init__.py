"""What one-bit aggregation is compared with: Laplace noise, JoPEQ and MVU, each as bits over the same link."""
