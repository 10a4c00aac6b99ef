"""Schemes that send a code for each number: Laplace noise, JoPEQ and MVU."""
