"""What `import kdissect` offers: read, dissect, analyse, compare, write, findings."""
