"""Classes of incidents, by the component affected."""
