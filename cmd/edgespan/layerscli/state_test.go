package layerscli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

func TestStateDerive(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"desired.json":  `{"generation":7,"parameters":[{"id":"b","target":"present","dependencies":["a"]},{"id":"a","target":"present","dependencies":[]}]}`,
		"reported.json": `{"generation":7,"parameters":[{"id":"b","state":"WaitingForDependencies","timestamp":"2026-05-01T12:00:00Z","message":""},{"id":"x","state":"RemovingFailed","timestamp":"2026-05-01T12:00:00Z","message":"it is busy"}]}`,
		"cycle.json":    `{"generation":7,"parameters":[{"id":"a","target":"present","dependencies":["b"]},{"id":"b","target":"absent","dependencies":["a","c"]}]}`,
		"purple.json":   `{"generation":7,"parameters":[{"id":"a","state":"Purple","timestamp":"2026-05-01T12:00:00Z","message":""}]}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const answer = `{
  "ready": false,
  "parameters": [
    {
      "id": "a",
      "state": "Creating",
      "review": "no",
      "reason": ""
    },
    {
      "id": "b",
      "state": "WaitingForDependencies",
      "review": "no",
      "reason": "waits for a"
    }
  ],
  "ignored": [
    {
      "id": "x",
      "state": "Ignored",
      "review": "yes",
      "reason": "it is busy"
    }
  ]
}
`
	desired, err := os.ReadFile("desired.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args, in string
		want     clitest.Said
	}{
		{"--desired desired.json --reported reported.json -o json", "", clitest.Said{Code: 0, Out: answer, Err: ""}},
		{"--desired - --reported reported.json -o json", string(desired), clitest.Said{Code: 0, Out: answer, Err: ""}},
		{"--desired desired.json --reported reported.json -o name", "", clitest.Said{Code: 0, Out: "a\nb\nx\n", Err: ""}},
		{"--wanted desired.json --reported reported.json -o name", "", clitest.Said{Code: 0, Out: "a\nb\nx\n",
			Err: "deprecated: use '--desired' instead of '--wanted'\n"}},
		{"--desired desired.json --reported reported.json", "", clitest.Said{
			Code: 0, Out: "PARAMETER  STATE                   REVIEW  REASON\n" +
				"a          Creating                no      -\n" +
				"b          WaitingForDependencies  no      waits for a\n" +
				"x          Ignored                 yes     it is busy\n", Err: "ready: no\n",
		}},
		{"--desired cycle.json --reported purple.json -o json", "",
			clitest.Said{Code: 4, Out: "",
				Err: `cycle.json: parameters.0.dependencies: parameters wait for each other: "a" -> "b" -> "a": must be ` +
					`without a cycle` + "\n" +
					`cycle.json: parameters.1.dependencies: "b" depends on "c", which is not a parameter: must be the id of a ` +
					`parameter` + "\n" +
					`purple.json: parameters.0.state: invalid value "Purple", which is not a reported state: must be Present, ` +
					`Absent, WaitingForDependencies, CreatingFailed, RemovingFailed, CheckPresentFailed or CheckAbsentFailed` + "\n"}},
		{"--desired none.json --reported nil.json", "", clitest.Said{Code: 10,
			Out: "", Err: "open none.json: no such file or directory\nopen nil.json: no such file or directory\n"}},
		{"--desired desired.json", "", clitest.Said{Code: 2,
			Out: "", Err: "--desired and --reported: required: a file each; one of them can be - for stdin\n"}},
		{"--desired - --reported -", "", clitest.Said{Code: 2,
			Out: "", Err: "--desired and --reported: both are -: only one of them can be stdin\n"}},
		{"--desired desired.json --reported reported.json -o xml", "",
			clitest.Said{Code: 2, Out: "", Err: "-o: invalid value \"xml\": must be table, wide, json, yaml or name\n"}},
	} {
		if got := cli(t, nil, c.in, append([]string{"state", "derive"}, strings.Fields(c.args)...)...); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.args, got, c.want)
		}
	}
}

// TestEveryExampleOfTheStateLoopPage runs the console blocks of docs/state-loop.md from the
// first to the last, as those of docs/layers.md.
func TestEveryExampleOfTheStateLoopPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/state-loop.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ran := []string{}
	for _, e := range clitest.ConsoleExamples(string(text)) {
		words := strings.Fields(e.Command)
		if words[0] == "cat" && len(words) == 2 {
			if err := os.WriteFile(filepath.Base(words[1]), []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if words[0] != "edgespan" || len(words) < 3 {
			t.Errorf("%s: edgespan and cat are allowed", e.Command)
			continue
		}
		ran = append(ran, words[1]+" "+words[2])
		if got := cli(t, nil, "", words[1:]...); !clitest.MatchElided(got.Err+got.Out, e.Output) {
			t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Err, got.Out, e.Output)
		}
	}
	if !slices.Contains(ran, "state derive") {
		t.Errorf("docs/state-loop.md has no example of state derive: %v", ran)
	}
}
