"""What an encoder has learned, seen from outside: measures of its embeddings, a verdict, and relations."""
