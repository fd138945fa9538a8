"""The experiments of SpecK: scalability of deployments, and fog against cloud."""
