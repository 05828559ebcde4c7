from agent import TIME, ask, started


def test_noon_in_tokyo():
    said = ask(started(TIME))
    assert "21:00" in said
