package ops

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/layers"
	"edgespan/config/layers/override"
)

// A question that names one document a thousand times is refused before it is made.
func TestAnswersAreBounded(t *testing.T) { // alone: it measures memory
	b := crowd(t, 200)
	large := config.Object{"text": strings.Repeat("x", 1<<20)}
	b.Layers = func(fleet.Kind) (layers.Set, error) {
		return layers.Set{layers.Base: large, layers.Hardware: large}, nil
	}
	var names []string
	for i := range 64 {
		names = append(names, fmt.Sprint("RELEASE_M", i))
	}
	deep := config.Object{}
	for i := range 10_000 {
		deep[fmt.Sprint("k", i)] = int64(i)
	}
	rich := crowd(t, 500)
	rich.Layers = func(fleet.Kind) (layers.Set, error) { return layers.Set{layers.Base: config.Object{"a": deep}}, nil }
	star := [][]string{{"*"}, {"*", "*"}, {"*", "*", "none"}}
	for name, ask := range map[string]func() (DocumentAnswer, error){
		"base": func() (DocumentAnswer, error) { return b.Layer(LayerQuery{Layer: layers.Base, Versions: names}) },
		"hardware": func() (DocumentAnswer, error) {
			return b.Layer(LayerQuery{Layer: layers.Hardware, Boards: names, Versions: names})
		},
		"paths": func() (DocumentAnswer, error) { return b.Paths(PathsQuery{Paths: star[:1]}) },
		"stars": func() (DocumentAnswer, error) { return rich.Paths(PathsQuery{Paths: star}) },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ask()
		runtime.ReadMemStats(&after)
		if name == "hardware" && err == nil {
			continue // none of these boards is known: nothing to show
		}
		if !errors.As(err, new(*TooLargeError)) {
			t.Errorf("%s: %v", name, err)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 64 {
			t.Errorf("%s: took %d MB before it was refused", name, used)
		}
	}
	if d, err := b.Layer(LayerQuery{Layer: layers.Base, Versions: names[:3]}); err != nil || len(d.Object) != 3 {
		t.Errorf("three: %v", err)
	}
}

// Who wrote each of many values is looked for in the history: that has an end.
func TestAnExplanationIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "n1")
	deep := config.Object{}
	for i := range maxExplained {
		deep[fmt.Sprint("k", i)] = int64(i)
	}
	b.do(SetNodes{Overrides: config.Object{"n1": config.Object{"kvstoreParams": config.Object{"a": "1"}, "deep": deep}}})
	if _, err := b.Explain("n1", nil); !errors.As(err, new(*TooLargeError)) ||
		!strings.Contains(err.Error(), "name a path") {
		t.Errorf("all: %v", err)
	}
	if got, err := b.Explain("n1", []string{"kvstoreParams"}); err != nil || len(got) != 1 {
		t.Errorf("a path: %v %v", got, err)
	}
}

// Nobody waits for an answer any more: it ends.
func TestAComputationEndsWithItsQuestion(t *testing.T) {
	t.Parallel()
	b := crowd(t, 50)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	b.Ended = func() error {
		if asked++; asked == 20 {
			cancel()
		}
		return ctx.Err()
	}
	_, err := b.Paths(PathsQuery{Paths: [][]string{{"sysParams"}}})
	if !errors.Is(err, context.Canceled) || asked != 20 {
		t.Errorf("%v, after %d looks", err, asked)
	}
}

// A write of a million names or keys is refused by what they are, and in few words.
func TestWritesOfTooMuchAreRefusedInFewWords(t *testing.T) {
	t.Parallel()
	b := crowd(t, 20)
	names, keys := config.Object{}, config.Object{}
	for i := range 20_000 {
		names[fmt.Sprint("x", i)], keys[fmt.Sprint("x", i)] = config.Object{}, int64(0)
	}
	for name, c := range map[string]struct {
		write Write
		words string
	}{
		"strangers": {SetNodes{Overrides: names, Modify: true}, "19900 more are unknown"},
		"unset":     {Unset{Layer: layers.Node, Keys: keysOf(names)}, "19900 more are unknown"},
		"wide":      {SetNetwork{Overrides: keys, Modify: true}, "too many keys at its top (20000): must be at most 1000"},
		"wide node": {SetNodes{Overrides: config.Object{"node-00001": keys}}, "too many keys at its top (20000)"},
	} {
		_, err := b.Validate(c.write)
		var no *Refused
		if !errors.As(err, &no) || !strings.Contains(no.Faults.Error(), c.words) || len(no.Faults) > maxUnknownNodes+1 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

func keysOf(o config.Object) (out [][]string) {
	for key := range o {
		out = append(out, []string{key})
	}
	return out
}

// What a network write costs does not grow with nodes that have nothing of their own where it is.
func TestAWideWriteIsCutOnceForAllNodes(t *testing.T) { // alone: it measures memory
	used := func(nodes int) uint64 {
		b := crowd(t, nodes)
		o := config.Object{}
		for i := range maxTop {
			o[fmt.Sprint("x", i)] = int64(0)
		}
		world, err := b.Snapshot.newCheck().readInputs(b.nodeNames())
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, faults := override.Apply(world,
			override.Change{Layer: layers.Network, Op: override.Modify, Overrides: o}); len(faults) > 0 {
			t.Fatal(faults)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := used(10), used(1000)
	if each := (many - few) / 990; each > 8<<10 {
		t.Errorf("each node more takes %d bytes", each)
	}
}
