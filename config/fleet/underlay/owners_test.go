package underlay

import (
	"fmt"
	"testing"
)

func TestAKeyIsOfTheFirstToReportIt(t *testing.T) {
	t.Parallel()
	var o Owners
	is := func(what, key, want string) {
		t.Helper()
		if got := o.Of(key); got != want {
			t.Errorf("%s: %s is of %q, want %q", what, key, got, want)
		}
	}
	is("at first", "a", "")
	o.Set("alpha", []string{"a", "next"})
	o.Set("evil", []string{"e", "next", "a"})
	is("announced by two", "next", "alpha")
	is("in use", "a", "alpha")
	o.Set("alpha", []string{"a"}) // the next one is about to be used
	o.Set("evil", []string{"next"})
	is("between two reports", "next", "alpha")
	o.Set("alpha", []string{"next"})
	is("replaced", "a", "alpha")
	for i := range 1000 {
		o.Set("evil", []string{fmt.Sprint("made up ", i)})
	}
	if len(o.of) > 2*maxOwned || len(o.keys["evil"]) != maxOwned {
		t.Errorf("%d keys are remembered", len(o.of))
	}
	is("after many others", "next", "alpha")
	o.Forget("alpha")
	is("of a node that is deleted", "next", "")
	o.Set("beta", []string{"next"})
	is("after it was deleted", "next", "beta")
}
