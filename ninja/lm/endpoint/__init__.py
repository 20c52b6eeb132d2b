"""Language models behind a completions endpoint (vLLM, llama.cpp), which scores texts over HTTP."""
