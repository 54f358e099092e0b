"""Linearizability: what is judged how, by which algorithm, and what proves the verdict."""
