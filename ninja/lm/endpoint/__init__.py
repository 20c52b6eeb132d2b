"""Language models behind a completions endpoint (vLLM, llama.cpp) that scores texts over HTTP."""
