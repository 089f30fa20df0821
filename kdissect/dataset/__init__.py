"""Datasets: tables that grow by captures, and their manifests; without Spark."""
