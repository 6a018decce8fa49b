"""The recipes of the package, and mistakes in one."""

import pytest

from appliance.core.problem import RefusedError
from appliance.core.recipe import recipe_of
from appliance.service.share import recipe_files


@pytest.mark.parametrize("identity", sorted(recipe_files()))
def test_a_recipe_of_the_package_reads_and_has_the_name_of_its_file(identity: str) -> None:
    file = recipe_files()[identity]
    recipe = recipe_of(file.read_text(), str(file))
    assert recipe.id == identity
    assert recipe.questions


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('id = "r"\nsummary = "s"\n', "r.toml: question: missing; a recipe asks at least one question"),
        ('id = "r"\nsummary = "s"\n[[question]]\njudge = "task"\n', "[[question]] name: missing"),
        ('id = "r"\nsummary = "s"\nquestion = 3\n', "r.toml:3: question: wants tables; write [[question]]"),
        ('summary = "s"\n[[question]]\nname = "q"\njudge = "task"\n', "id: missing"),
    ],
)
def test_a_recipe_without_a_question_can_not_be_used(text: str, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        recipe_of(text, "r.toml")
    assert told in str(refused.value)
