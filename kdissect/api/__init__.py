"""Contents of `import kdissect`: read, dissect, analyse, compare, write, findings."""
