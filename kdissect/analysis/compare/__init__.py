"""What changed between two captures or two times of one."""
