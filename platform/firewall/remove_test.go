package firewall

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"edgespan/netinst/netstate"
	"edgespan/platform/nft"
)

// A removal that its caller gave up must not happen later: the network may be back.
func TestARemovalThatWasGivenUpIsNotDone(t *testing.T) {
	var mu sync.Mutex
	var done []string
	began, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r := newRemover(func(x nft.Removal) error {
		first.Do(func() { close(began); <-goOn })
		mu.Lock()
		defer mu.Unlock()
		done = append(done, names(x)...)
		return nil
	})
	one := make(chan error)
	go func() { one <- r.remove(t.Context(), nft.Removal{Tables: bridges("es1")}) }()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.remove(ctx, nft.Removal{Tables: bridges("es2")}); !errors.Is(err, context.Canceled) {
		t.Errorf("given up it is %v", err)
	}
	close(goOn)
	if err := <-one; err != nil {
		t.Error(err)
	}
	if err := r.remove(t.Context(), nft.Removal{Tables: bridges("es3")}); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(done) != 2 || done[0] != "es1" || done[1] != "es3" {
		t.Errorf("removed were %v, want es1 and es3", done)
	}
}

func TestOneRemovalDoesNotFailForAnother(t *testing.T) {
	synctest.Test(t, oneRemovalDoesNotFailForAnother)
}

func oneRemovalDoesNotFailForAnother(t *testing.T) {
	bad := errors.New("in use")
	began, goOn := make(chan struct{}), make(chan struct{})
	var first sync.Once
	r := newRemover(func(x nft.Removal) error {
		first.Do(func() { close(began); <-goOn })
		for _, b := range names(x) {
			if b == "es2" {
				return bad
			}
		}
		return nil
	})
	remove := func(name string) chan error {
		ended := make(chan error, 1)
		go func() { ended <- r.remove(t.Context(), nft.Removal{Tables: bridges(name)}) }()
		return ended
	}
	one := remove("es1")
	<-began
	two, three := remove("es2"), remove("es3")
	synctest.Wait() // both wait for the turn after the first's
	close(goOn)
	if a, b, c := <-one, <-two, <-three; a != nil || !errors.Is(b, bad) || c != nil {
		t.Errorf("they came to %v, %v, %v, want that the second alone fails", a, b, c)
	}
}

func bridges(name string) []nft.Table {
	return []nft.Table{{Family: netstate.BridgeFamily, Name: name}}
}

func names(x nft.Removal) []string {
	var list []string
	for _, t := range x.Tables {
		list = append(list, t.Name)
	}
	return list
}
