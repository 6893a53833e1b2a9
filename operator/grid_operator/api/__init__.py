"""The GridCluster API: types, conditions, names, and the CustomResourceDefinition."""
