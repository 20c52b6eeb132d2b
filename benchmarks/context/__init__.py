"""Error rates and costs of context on the English test-bed: entities, class models, boosts and contextual models."""
