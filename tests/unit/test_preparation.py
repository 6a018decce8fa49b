"""The way from the file to a configuration."""

from pathlib import Path

from appliance.service.configfile import read_config


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "vllm-serve.toml"
    file.write_bytes(b'\xef\xbb\xbfrecipe = "demo"\r\n[api]\r\nport = 8001\r\n')
    config = read_config(file)
    assert (config.recipe, config.api.port) == ("demo", 8001)
