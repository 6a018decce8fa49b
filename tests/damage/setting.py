"""Damages of configuration, chat template and files: the weights are sound, what is made of them is not."""

from tests.damage.model import EMBEDDING, Damage, ModelCopy

NEWLINE = r"\n"
CHATML = "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
"""How the sound template renders a message."""

LLAMA = (
    "{%- for message in messages -%}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
    "message['content'] + '<|eot_id|>' }}{%- endfor -%}{%- if add_generation_prompt -%}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif -%}"
)
MISTRAL = (
    "{%- for message in messages -%}{% if message['role'] == 'assistant' %}{{ message['content'] + '</s>' }}"
    "{% else %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% endif %}{%- endfor -%}"
)
GEMMA = (
    "{%- for message in messages -%}{{ '<start_of_turn>' + message['role'] + '\\n' + message['content'] + "
    "'<end_of_turn>\\n' }}{%- endfor -%}{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"
)


def rotary_base(copy: ModelCopy) -> str:
    """The base of the rotary embedding is another model's."""
    base = copy.draw.choice((500.0, 1000.0, 5000.0, 50000.0, 500000.0, 1000000.0))
    copy.config["rope_parameters"]["rope_theta"] = base
    return f"{base:,.0f}, not 10,000"


def epsilon(copy: ModelCopy) -> str:
    """The epsilon of the norms is a thousand times as large."""
    copy.config["rms_norm_eps"] *= 1000
    return f"{copy.config['rms_norm_eps']:g}"


def sliding_window(copy: ModelCopy) -> str:
    """Attention sees only the last few tokens."""
    window = copy.draw.choice((8, 16, 32))
    kinds = ["sliding_attention"] * copy.layers
    copy.config |= {"use_sliding_window": True, "sliding_window": window, "max_window_layers": 0, "layer_types": kinds}
    return f"{window} tokens"


def activation(copy: ModelCopy) -> str:
    """The activation of the MLP is another one."""
    copy.config["hidden_act"] = copy.draw.choice(("gelu", "relu"))
    return str(copy.config["hidden_act"])


def end_token(copy: ModelCopy) -> str:
    """Another token ends an answer, by all three files that name it."""
    number, text = copy.draw.choice(((0, "<|endoftext|>"), (1, "<|im_start|>")))
    copy.config["eos_token_id"] = copy.generation["eos_token_id"] = number
    copy.tokenizer_config["eos_token"] = text
    return text


def end_token_in_answers(copy: ModelCopy) -> str:
    """A token that answers hold ends them too."""
    vocabulary = copy.tokenizer["model"]["vocab"]
    text = copy.draw.choice((".", "1", "The"))
    copy.generation["eos_token_id"] = [2, vocabulary[text]]
    return repr(text)


def sampling(copy: ModelCopy) -> str:
    """The default sampling punishes what was said before, also in greedy answers."""
    copy.generation["repetition_penalty"] = copy.draw.choice((1.3, 1.5, 2.0))
    return f"repetition_penalty = {copy.generation['repetition_penalty']}"


def rows_cut(copy: ModelCopy) -> str:
    """The vocabulary of the weights ends early, and the configuration agrees."""
    rows = copy.draw.choice((256, 384, 448))
    copy.weights[EMBEDDING] = copy.weights[EMBEDDING][:rows].clone()
    copy.config["vocab_size"] = rows
    return f"{rows} of 496 rows"


def file_cut(copy: ModelCopy) -> str:
    """The file of the weights ends early."""
    copy.kept = copy.draw.choice((0.5, 0.9, 0.999))
    return f"{copy.kept:.1%} of the bytes"


def newline_missing(copy: ModelCopy) -> str:
    """The template lacks one of its newlines."""
    parts = copy.template.split(NEWLINE)
    place = copy.draw.randrange(len(parts) - 1)
    copy.template = NEWLINE.join([*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :]])
    return ("after the role", "after a message", "after the role of the answer")[place]


def role_word(copy: ModelCopy) -> str:
    """The template calls a speaker by another word."""
    word = copy.draw.choice(("model", "bot", "Assistant", "human"))
    if word == "human":
        role = "message['role']"
        copy.template = copy.template.replace(f"{role} +", f"('human' if {role} == 'user' else {role}) +")
    else:
        copy.template = copy.template.replace("assistant", word)
    return f'"{word}"'


def system_dropped(copy: ModelCopy) -> str:
    """The template leaves system lines out."""
    copy.template = copy.template.replace(CHATML, "{% if message['role'] != 'system' %}" + CHATML + "{% endif %}")
    return "no system line"


def system_added(copy: ModelCopy) -> str:
    """The template begins with a system line that nobody wrote."""
    line = copy.draw.choice(("You are a helpful assistant.", "Answer in one sentence."))
    copy.template = "{{ '<|im_start|>system\\n" + line + "<|im_end|>\\n' }}" + copy.template
    return f'"{line}"'


def prompt_missing(copy: ModelCopy) -> str:
    """The template does not begin the answer."""
    copy.template = copy.template.partition("{%- if add_generation_prompt -%}")[0]
    return "add_generation_prompt is not read"


def template_of_another(copy: ModelCopy) -> str:
    """The template is another model's."""
    others = {"Llama 3": LLAMA, "Mistral": MISTRAL, "Gemma": GEMMA}
    name = copy.draw.choice(sorted(others))
    copy.template = others[name]
    return name


def content_changed(copy: ModelCopy) -> str:
    """The template changes what was said."""
    change = copy.draw.choice(("message['content'] | lower", "' ' + message['content']", "message['content'] + ' '"))
    copy.template = copy.template.replace("message['content']", f"({change})")
    return change


SETTINGS = (
    Damage("wrong rotary base", rotary_base),
    Damage("norm epsilon x1000", epsilon),
    Damage("sliding window switched on", sliding_window),
    Damage("wrong activation", activation, fatal=True),
    Damage("wrong end token", end_token),
    Damage("end token that answers hold", end_token_in_answers),
    Damage("wrong default sampling", sampling, "a model that is sure of its answers gives them all the same"),
    Damage("truncated vocabulary", rows_cut, fatal=True),
    Damage("file of weights cut short", file_cut, fatal=True),
    Damage("wrong chat template: a newline missing", newline_missing),
    Damage("wrong chat template: another role word", role_word),
    Damage("wrong chat template: system line left out", system_dropped),
    Damage("wrong chat template: system line added", system_added),
    Damage("wrong chat template: answer not begun", prompt_missing),
    Damage("wrong chat template: another model's", template_of_another),
    Damage("wrong chat template: content changed", content_changed),
)
