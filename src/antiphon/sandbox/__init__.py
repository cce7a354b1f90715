"""Code of a model, run where it can reach nothing: bubblewrap, namespaces, cgroups, seccomp."""
