"""The operator: turns GridCluster resources into running members and keeps them so."""
