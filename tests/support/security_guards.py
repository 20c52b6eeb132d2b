# ruff: noqa: E501
"""The guarantees of docs/security.md with their tests and guards; `test_security_guards` removes each guard."""

from typing import NamedTuple


class Promise(NamedTuple):
    """A guarantee, its test, and the line of code without which that test fails."""

    guarantee: str
    test: str  # file::function
    file: str  # the file of the guard
    guard: str
    replacement: str = ""  # replacement of the guard


CODE, ACCESS, BOUNDS, INJECTION = "No code is run", "No other file", "Bounded memory and time", "No injection"
REQUESTS = "Requests of a server"
CONNECTIONS = "Connections"
MODELS = "project/test_security_models.py::"
FILES = "project/test_security.py::"

PROMISES: dict[str, list[Promise]] = {
    CODE: [
        Promise("checkpoints are not unpickled", MODELS + "test_torch_files_are_not_unpickled", "ninja/formats/torch_file.py", "if name not in self._names:", "if False:"),
        Promise("phrase encoders are not unpickled", MODELS + "test_torch_files_are_not_unpickled", "ninja/formats/torch_file.py", "if name not in self._names:", "if False:"),
        Promise("training states are not unpickled", MODELS + "test_torch_files_are_not_unpickled", "ninja/formats/torch_file.py", "if name not in self._names:", "if False:"),
        Promise("torch files of lattices (k2) and matrices are not unpickled", MODELS + "test_torch_files_are_not_unpickled", "ninja/formats/torch_file.py", "if name not in self._names:", "if False:"),
        Promise("TorchScript and torch.export programs are refused", "lm/test_torch_module.py::test_torch_programs_are_refused_with_advice_to_export_onnx", "ninja/lm/load.py", "    if program:\n", "    if False:\n"),
        Promise("code in the folder of a Hugging Face model is not run", MODELS + "test_code_in_model_folder_is_not_run", "ninja/lm/huggingface/loading.py", "trust_remote_code=False", "trust_remote_code=True"),
        Promise("kernels are not fetched from a hub", MODELS + "test_kernels_of_a_hub_are_not_fetched", "ninja/lm/huggingface/loading.py", "    _check_kernels(config, path)\n"),
        Promise("ONNX operators outside the allow-list are refused", "lm/test_onnx_check.py::test_unlisted_operators_and_subgraphs_are_refused", "ninja/lm/imported/onnx_check.py", "if node.domain not in DOMAINS or node.op_type not in OPERATORS:", "if False:"),
        Promise("unknown Caffe2 operators are refused", "lm/test_caffe2.py::test_an_unknown_operator_is_reported_with_its_position", "ninja/lm/imported/caffe2.py", "if operator.type not in OPERATORS:", "if False:"),
        Promise("commands in script files are not run", "io/test_tables.py::test_allowing_pipes_does_not_allow_them_in_script_files", "ninja/files/names.py", "if not (unpacked := _unpacked(command)):", "unpacked = _unpacked(command) or [command]\n        if False:"),
        Promise("an option file cannot allow commands or clusters", FILES + "test_option_files_cannot_run_commands_or_name_outputs", "ninja/cli/config.py", "or option.name in COMMAND_LINE_ONLY", ""),
        Promise("sed scripts cannot run commands or write files", "cli/test_score_grid.py::test_a_sed_script_cannot_run_commands_or_write_files", "ninja/evaluate/word_filters.py", '"--sandbox", '),
        Promise("only URLs of object stores are opened; chained URLs are refused", "files/test_remote.py::test_missing_files_protocols_and_packages_are_named_in_errors", "ninja/files/remote.py", "if protocol not in SCHEMES:", "if False:"),
    ],
    ACCESS: [
        Promise("keys name files inside the output folder only", "cli/test_targets.py::test_a_key_that_is_not_a_file_name_fails_only_its_lattice", "ninja/io/layouts.py", '{os.sep, os.altsep, "\\0"} & {*key}', "False"),
        Promise("speakers name files inside the output folder only", "cli/test_archive_commands.py::test_split_refuses_invalid_options_keys_and_speakers", "ninja/cli/archives.py", 'if not name or "/" in name or name.startswith("."):', "if False:"),
        Promise("an output does not replace an input", "files/test_guard.py::test_input_lattices_are_refused_as_outputs_for_every_kind_of_source", "ninja/files/stream.py", "        if identity in self._read:\n", "        if False:\n"),
        Promise("an option file cannot name outputs", FILES + "test_option_files_cannot_run_commands_or_name_outputs", "ninja/cli/config.py", "isinstance(option.type, OutputFile) or ", ""),
        Promise("a symbolic link at a temporary name is not followed", FILES + "test_a_link_at_the_temporary_name_is_not_followed", "ninja/files/output.py", "os.O_RDWR | os.O_NOFOLLOW | flags", "os.O_RDWR | flags"),
        Promise("a symbolic link at the name of an output is not followed", "io/test_tables_writing.py::test_a_symbolic_link_at_the_output_path_is_replaced", "ninja/files/output.py", "self._final = os.path.abspath(path)", "self._final = os.path.realpath(path)"),
        Promise("a shard plan names outputs beside its folder only", "pipeline/test_shards_untrusted.py::test_a_plan_cannot_name_files_outside_its_folder", "ninja/pipeline/record.py", "_base(base)", "base"),
        Promise("a shard plan does not replace files that the user did not name", "pipeline/test_shards_untrusted.py::test_an_output_listed_only_in_the_plan_does_not_replace_a_file", "ninja/pipeline/join.py", "            _refuse_unnamed(plan, path)\n"),
        Promise("a shard record names parts of its own shard only", "pipeline/test_shards_untrusted.py::test_a_record_can_name_only_parts_of_its_shard", "ninja/pipeline/record.py", "options[name.removeprefix(f\"{shard.name}.\")] == part.option", "True"),
        Promise("temporary files of URLs are in a folder owned by the user", "files/test_remote.py::test_a_temporary_folder_of_another_user_is_refused", "ninja/files/remote.py", "if not is_own:", "if False:"),
        Promise("`file` in an entity list names files in its folder or below only", FILES + "test_entity_list_file_must_be_in_the_folder", "ninja/context/entities/parse.py", "path = below(file, section.location.path)", "path = section.location.path.rpartition(\"/\")[0] + \"/\" + file"),
        Promise("ONNX weights are in the folder of the model", "lm/test_onnx.py::test_weights_outside_the_models_directory_are_refused", "ninja/lm/imported/onnx_check.py", "os.path.commonpath((folder, file)) != folder", "False"),
        Promise("ONNX weights are not read from a memory address", "lm/test_onnx_check.py::test_a_weight_is_not_read_from_an_address_in_memory", "ninja/lm/imported/onnx_check.py", "if not os.path.isfile(file):", "if False:"),
        Promise("a Hugging Face index names files in its folder only", MODELS + "test_weight_index_must_name_files_in_its_folder", "ninja/lm/huggingface/loading.py", "if os.path.basename(str(shard)) != shard:", "if False:"),
        Promise("a Hugging Face adapter cannot name another model", MODELS + "test_an_adapter_that_names_another_model_is_refused", "ninja/lm/huggingface/loading.py", "if os.path.exists(os.path.join(path, ADAPTER)):", "if False:"),
        Promise("listings of an object store outside the requested folder are refused", FILES + "test_store_listings_outside_the_folder_are_refused", "ninja/files/remote.py", 'if ".." in url.split("/") or not url.startswith(', 'if False and url.startswith('),
        Promise("files cannot name URLs; lists in a store may, within their folder", "project/test_names_in_data.py::test_names_in_files_open_permitted_files_only", "ninja/files/names.py", "elif names_url(name):", "elif False:"),
        Promise("an option file cannot name URLs", "project/test_names_in_data.py::test_names_in_files_open_permitted_files_only", "ninja/cli/config.py", "isinstance(item, str) and names_url(item)", "False"),
        Promise("tokenizer settings name files in their folder only", "project/test_names_in_data.py::test_names_in_files_open_permitted_files_only", "ninja/lm/huggingface/loading.py", "_check_named_files(_json(path, name), name, path)", "pass"),
    ],
    CONNECTIONS: [
        Promise("redirects of a completions endpoint are not followed", "lm/test_endpoint.py::test_only_the_host_of_the_url_is_contacted", "ninja/lm/endpoint/client.py", "if response.status != 200:", "if False:"),
        Promise("an answer of a completions endpoint that does not match the request gives no score", "lm/test_endpoint.py::test_a_server_fault_raises_an_error_after_all_attempts", "ninja/lm/endpoint/servers.py", "if len(scores) != len(text):", "if False:"),
        Promise("an option file cannot name the cache of an endpoint", "lm/test_endpoint.py::test_the_command_rescores_with_a_server", "ninja/cli/config.py", "isinstance(option.type, OutputFile) or ", ""),
    ],
    BOUNDS: [
        Promise("gzip unpacks to at most 256 MB or 100 times the packed size", FILES + "test_a_gzip_bomb_is_refused", "ninja/files/gzip.py", "if self._unpacked_size > max(", "if False and max("),
        Promise("nesting is bounded in option files", FILES + "test_deep_nesting_raises_format_error", "ninja/files/text.py", "except RecursionError:", "except ZeroDivisionError:"),
        Promise("nesting is bounded in entity lists", FILES + "test_deep_nesting_raises_format_error", "ninja/context/entities/parse.py", "except RecursionError:", "except ZeroDivisionError:"),
        Promise("nesting is bounded in n-best lists", FILES + "test_deep_nesting_raises_format_error", "ninja/formats/nbest/json_lists.py", "except RecursionError as error:", "except ZeroDivisionError as error:"),
        Promise("nesting is bounded in model configurations", MODELS + "test_deeply_nested_configuration_is_refused", "ninja/lm/huggingface/loading.py", "except (ValueError, RecursionError) as error:", "except ValueError as error:"),
        Promise("a safetensors header has at most 100 MB and fits in the file, and arrays do not overlap", "lm/test_safetensors.py::test_an_invalid_file_is_refused_with_its_byte", "ninja/lm/stored_network.py", "        if first != end:\n", "        if False:\n"),
        Promise("lists of files cannot name other lists", FILES + "test_recursive_list_of_files_terminates", "ninja/io/detection.py", 'by_suffix(name) or "ark"', '"any"'),
        Promise("regular expressions take linear time", FILES + "test_regular_expressions_match_in_linear_time", "ninja/formats/pfsg.py", '_BLANK = re.compile(rb"\\s+")', '_BLANK = re.compile(rb"(\\s*)*x")'),
        Promise("`file` of an entity list cannot be a pipe", "context/test_entities_parse.py::test_list_file_that_is_a_pipe_raises_input_error", "ninja/context/entities/parse.py", "text_of(path, plain=True)", "text_of(path)"),
        Promise("pipes and devices in lists of files are not read", "pipeline/test_outputs_by_file.py::test_unreadable_files_in_a_list_do_not_affect_other_files", "ninja/files/stream.py", "if not stat.S_ISREG(os.stat(path).st_mode):", "if False:"),
        Promise("pipes and devices in model folders are not read", "project/test_names_in_data.py::test_pipe_in_model_folder_is_refused", "ninja/lm/load.py", "if os.path.exists(path) and not os.path.isfile(path):", "if False:"),
    ],
    INJECTION: [
        Promise("words and keys cannot end a script of a page", "show/test_show.py::test_embedded_data_are_unchanged_and_contain_no_markup_characters", "ninja/show/page.py", '.replace("<", "\\\\u003c")', ""),
        Promise("words and keys are not interpreted as markup", "show/test_show.py::test_words_cannot_end_the_script_that_contains_them", "ninja/show/page.py", "autoescape=True", "autoescape=False"),
        Promise("a page loads nothing and runs only its own script", "show/test_show.py::test_a_page_loads_nothing_and_runs_only_its_own_scripts", "ninja/show/page.py", "policy=f\"{POLICY}; script-src {hashes}\"", 'policy=""'),
        Promise("messages contain no escape sequences", FILES + "test_messages_have_no_escape_sequences", "ninja/files/output.py", "    sys.stderr = cast(TextIO, Printable(sys.stderr))\n"),
        Promise("results on a terminal contain no escape sequences", FILES + "test_words_on_terminals_have_no_escape_sequences", "ninja/files/output.py", "if sys.stdout.isatty():", "if False:"),
    ],
    REQUESTS: [
        Promise('requests name no files: their phrases have classes only', 'serve/test_serve_api.py::test_no_request_opens_a_file', 'ninja/serve/requests.py', 'if name != NO_CLASS and not is_class(name):', 'if False:'),
        Promise('bodies above the limit are refused before they have arrived completely', 'serve/test_serve_api.py::test_bodies_lattices_and_phrases_above_their_limits_are_refused', 'ninja/serve/app.py', '            if size > most:', '            if False:'),
        Promise('gzipped bodies have the same limit after unpacking', 'serve/test_serve_api.py::test_bodies_lattices_and_phrases_above_their_limits_are_refused', 'ninja/serve/lattices.py', '        if content.tell() > most:', '        if False:'),
        Promise('the number of requests in progress is bounded', 'serve/test_serve_api.py::test_requests_above_the_limit_are_refused_with_retry_after', 'ninja/serve/app.py', 'if self._num_requests >= self._options.max_requests:', 'if False:'),
        Promise('requests whose body arrives too slowly are abandoned', 'serve/test_serve_api.py::test_requests_that_do_not_arrive_completely_time_out', 'ninja/serve/app.py', 'await asyncio.wait_for(self._body(request, advice.too_large), self._options.max_seconds)', 'await self._body(request, advice.too_large)'),
        Promise('connections without a request are closed', 'serve/test_serve_api.py::test_requests_that_do_not_arrive_completely_time_out', 'ninja/serve/server.py', '                self.transport.close()\n', '                pass\n'),
        Promise('the words added by requests take bounded memory', 'serve/test_serve_api.py::test_the_symbol_table_of_requests_is_renewed_at_its_size_limit', 'ninja/serve/lattices.py', '                self._current = self._new()\n', '                pass\n'),
        Promise('a corrected transcript is written from the body, and opens no file', 'serve/test_serve_correct.py::test_correcting_a_transcript_opens_no_file', 'ninja/serve/corrections.py', 'Content(stream, "")', 'Content(stream, "-")'),
        Promise('the number of words per utterance of a transcript is limited', 'serve/test_serve_correct.py::test_corrections_above_a_limit_are_refused_with_advice', 'ninja/serve/corrections.py', 'if len(words) > MAX_WORDS:', 'if False:'),
        Promise('corrections above the time limit are cancelled', 'serve/test_serve_correct.py::test_a_correction_above_the_time_limit_is_cancelled', 'ninja/serve/corrections.py', 'if time.monotonic() > until:', 'if False:'),
        Promise('the words of transcripts take bounded memory', 'serve/test_serve_correct.py::test_caches_of_transcript_words_are_bounded', 'ninja/context/sound/pronunciation.py', 'if len(self._cache) >= MAX_CACHED:', 'if False:'),
        Promise('sessions, the time between their messages and the arcs of their lattices are bounded', 'serve/test_serve_stream.py::test_sessions_idle_time_and_lattice_arcs_are_bounded', 'ninja/serve/stream.py', 'if self._num_sessions >= self._options.max_sessions:', 'if False:'),
        Promise('the frames of a session are bounded', 'serve/test_serve_stream.py::test_the_frames_of_a_session_are_bounded', 'ninja/serve/stream.py', 'if self._num_bytes > self._limits.max_body:', 'if False:'),
        Promise('messages above the limit end their session', 'serve/test_serve_stream.py::test_a_message_above_the_size_limit_ends_its_session', 'ninja/serve/server.py', 'ws_max_size=options.max_body,', 'ws_max_size=1 << 30,'),
        Promise('updates that take too long end their session', 'serve/test_serve_stream.py::test_an_update_above_the_time_limit_ends_its_session', 'ninja/serve/stream.py', 'await asyncio.wait_for(work, self._options.max_seconds)', 'await work'),
        Promise('connections are closed if the client does not read the answers', 'serve/test_serve_stream.py::test_a_session_ends_if_its_client_does_not_read', 'ninja/serve/server.py', '        self.transport.abort()  # `close` would wait until the client has read all data\n', ''),
        Promise('a session needs the token', 'serve/test_serve_stream.py::test_a_session_requires_the_token_and_the_origin_of_the_server', 'ninja/serve/stream.py', '        self._check(headers)\n', ''),
        Promise('pages of other sites cannot open sessions', 'serve/test_serve_stream.py::test_a_session_requires_the_token_and_the_origin_of_the_server', 'ninja/serve/stream.py', 'if origin is not None and _host(origin) != headers.get("host"):', 'if False:'),
        Promise('word ids of one request do not spell words of another', 'serve/test_serve_api.py::test_a_request_cannot_use_word_ids_added_by_another_request', 'ninja/serve/app.py', '            self.scorer.vocabularies.refuse_new_words(rescored)\n', '            pass\n'),
        Promise('a token is needed if the server has one', 'serve/test_serve_api.py::test_a_token_is_required_except_for_pages_and_health', 'ninja/serve/app.py', 'if path not in OPEN_PATHS:', 'if False:'),
        Promise('the page of the server runs only its own script', 'serve/test_serve_page.py::test_the_content_security_policy_allows_only_the_script_of_the_page', 'ninja/serve/page.py', "script-src 'sha256-{digest}'", "script-src 'unsafe-inline'"),
    ],
}  # fmt: skip
