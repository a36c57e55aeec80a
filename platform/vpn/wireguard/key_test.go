package wireguard

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/proc"
)

func TestAKeyIsMadeOnceAndKept(t *testing.T) {
	dir := keys(filepath.Join(t.TempDir(), "wireguard"))
	first, err := dir.get("n1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(string(dir), "n1")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if folder, err := os.Stat(string(dir)); err != nil || folder.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", folder, err)
	}
	if again, err := dir.get("n1"); err != nil || again != first || first != first.clamped() {
		t.Errorf("another key: %v", err)
	}
	if other, err := dir.get("n2"); err != nil || other == first {
		t.Errorf("the same key: %v", err)
	}
	for range 2 { // a missing one is no error
		if err := dir.forget("n1"); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := dir.get("n1"); err != nil || again == first {
		t.Errorf("a forgotten key: %v", err)
	}
}

func TestAKeyThatCannotBeReadIsNotReplaced(t *testing.T) {
	dir := keys(t.TempDir())
	path := filepath.Join(string(dir), "n1")
	const text = "half of a ke"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.get("n1"); err == nil || strings.Contains(err.Error(), text) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"", "..", "a/b", ".hidden"} {
		if _, err := dir.get(name); err == nil {
			t.Errorf("identity %q is taken", name)
		}
		if err := dir.forget(name); err == nil {
			t.Errorf("identity %q is forgotten", name)
		}
	}
}

// The next key is made beside the kept one, which it replaces whole; an end in between leaves no other key than these.
func TestAKeyIsReplacedByTheOneAnnounced(t *testing.T) {
	dir := t.TempDir()
	tunnels := New(proc.New(""), "", dir, dir)
	defer tunnels.Close()
	kept := func() netstate.KeptKey {
		t.Helper()
		k, err := tunnels.Kept("clusters")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := kept()
	if first.Public == "" || first.Next != "" || !first.Announced.IsZero() || time.Since(first.Made) > time.Minute {
		t.Errorf("at first: %+v", first)
	}
	if err := tunnels.Replace("clusters"); err == nil || kept().Public != first.Public {
		t.Errorf("replaced by none: %v, %+v", err, kept())
	}
	for range 2 { // once
		if err := tunnels.Announce("clusters"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "wireguard", "clusters")
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	second := kept()
	if second.Public != first.Public || second.Next == "" || second.Next == first.Public || second.Announced.IsZero() ||
		time.Since(second.Made) < time.Hour {
		t.Errorf("announced: %+v", second)
	}
	text, err := os.ReadFile(path + nextSuffix)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []bool{false, true} {
		if err := tunnels.Replace("clusters"); err != nil {
			t.Fatal(err)
		}
		if cut { // the end came before the announced one was deleted
			if err := os.WriteFile(path+nextSuffix, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if now := kept(); now.Public != second.Next || now.Next != "" || time.Since(now.Made) > time.Minute {
			t.Errorf("replaced: %+v", now)
		}
		if _, err := os.Stat(path + nextSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the announced key is left: %v", err)
		}
		if err := tunnels.Announce("clusters"); err != nil {
			t.Fatal(err)
		}
		if text, err = os.ReadFile(path + nextSuffix); err != nil {
			t.Fatal(err)
		}
		second = kept()
	}
	if err := os.WriteFile(path+nextSuffix, []byte("half of a ke"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tunnels.Replace("clusters"); err == nil || strings.Contains(err.Error(), "half") {
		t.Errorf("replaced by half a key: %v", err)
	}
	if now := kept(); now.Public != second.Public || now.Next != "" { // so that another one is announced
		t.Errorf("beside half a key: %+v, want %s alone", now, second.Public)
	}
}

// The former key is tried again, and the new one, until one of them is proven. What was cut short leaves no third one.
func TestAReplacedKeyIsTriedAgainUntilOneIsProven(t *testing.T) {
	dir := t.TempDir()
	tunnels := New(proc.New(""), "", dir, dir)
	defer tunnels.Close()
	first, second := "", ""
	is := func(what, public, former, tried string) {
		t.Helper()
		k, err := tunnels.Kept("clusters")
		if err != nil || k.Public != public || k.Former != former || k.Tried != tried || k.Next != "" ||
			time.Since(k.Made) > time.Minute {
			t.Errorf("%s: %+v, %v", what, k, err)
		}
	}
	replace := func() {
		t.Helper()
		k, err := tunnels.Kept("clusters")
		first = k.Public
		if err := errors.Join(err, tunnels.Announce("clusters"), tunnels.Replace("clusters")); err != nil {
			t.Fatal(err)
		}
		if second, err = tunnels.PublicKey("clusters"); err != nil {
			t.Fatal(err)
		}
		is("replaced", second, first, "")
	}
	does := func(f func(string) error) {
		t.Helper()
		if err := f("clusters"); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "wireguard", "clusters")
	old := time.Now().Add(-time.Hour)
	replace()
	for range 3 {
		if err := os.Chtimes(path+formerSuffix, old, old); err != nil {
			t.Fatal(err)
		}
		former, err := os.Stat(path + formerSuffix)
		if err != nil {
			t.Fatal(err)
		}
		does(tunnels.Announce)
		does(tunnels.TryFormer)
		if back, err := os.Stat(path); err != nil || !os.SameFile(former, back) {
			t.Errorf("another file, for which a full disk has no room: %v", err)
		}
		is("the former one is tried", first, "", second)
		if err := tunnels.TryFormer("clusters"); err == nil {
			t.Error("a former key is tried that is not there")
		}
		does(tunnels.TryAgain)
		is("the new one is tried again", second, first, "")
	}
	does(tunnels.Settle)
	is("the new one is proven", second, "", "")
	replace()
	does(tunnels.TryFormer)
	does(tunnels.Settle)
	is("the former one is proven", first, "", "")
	replace()
	if err := os.Link(path, path+triedSuffix); err != nil { // a trial that was cut short
		t.Fatal(err)
	}
	is("cut short", second, first, "")
	does(tunnels.Settle)
	kept := func() netstate.KeptKey {
		t.Helper()
		k, err := tunnels.Kept("clusters")
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	for what, from := range map[string]string{"cut short": path, "damaged": ""} {
		text := []byte("half of a ke")
		if from != "" {
			text, _ = os.ReadFile(from)
		}
		if err := os.WriteFile(path+formerSuffix, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if k := kept(); k.Former != "" {
			t.Errorf("%s: %+v", what, k)
		}
	}
}

// A trial that fails on the way, as on a full disk, loses no key, and succeeds when it is tried again.
func TestATrialThatFailsLosesNoKey(t *testing.T) {
	dir := t.TempDir()
	tunnels := New(proc.New(""), "", dir, dir)
	defer tunnels.Close()
	path := filepath.Join(dir, "wireguard", "clusters")
	made := map[string]string{}
	is := func(what string, suffix, key string) {
		t.Helper()
		if got, err := tunnels.PublicKey("clusters" + suffix); err != nil || got != key {
			t.Errorf("%s: clusters%s is %q, %v, want %q", what, suffix, got, err, key)
		}
	}
	for _, suffix := range []string{"", formerSuffix, triedSuffix, nextSuffix} {
		var err error
		if made[suffix], err = tunnels.PublicKey("clusters" + suffix); err != nil {
			t.Fatal(err)
		}
	}
	// A folder can be neither linked nor copied.
	if err := errors.Join(os.Rename(path, path+".aside"), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tunnels.TryFormer("clusters"); err == nil {
			t.Fatal("a key was replaced that could not be kept")
		}
	}
	for _, suffix := range []string{formerSuffix, triedSuffix, nextSuffix} {
		is("after a fault", suffix, made[suffix])
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".aside", path)); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, path+triedSuffix+swapSuffix); err != nil { // of a process that ended there
		t.Fatal(err)
	}
	if err := tunnels.TryFormer("clusters"); err != nil {
		t.Fatal(err)
	}
	is("tried again", "", made[formerSuffix])
	is("tried again", triedSuffix, made[""])
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 2 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// Who deletes the kept key, because somebody has a copy of it, is rid of the announced one, too.
func TestADeletedKeyTakesTheAnnouncedOneWithIt(t *testing.T) {
	dir := t.TempDir()
	tunnels := New(proc.New(""), "", dir, dir)
	defer tunnels.Close()
	if _, err := tunnels.Kept("clusters"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "wireguard", "clusters")
	for _, clock := range []time.Duration{-time.Second, time.Hour} { // also one that is behind now
		if err := tunnels.Announce("clusters"); err != nil {
			t.Fatal(err)
		}
		announced := time.Now().Add(clock)
		if err := errors.Join(os.Chtimes(path+nextSuffix, announced, announced), os.Remove(path)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if k, err := tunnels.Kept("clusters"); err != nil || k.Next != "" || !k.Announced.IsZero() {
				t.Errorf("%+v, %v", k, err)
			}
		}
	}
	if _, err := os.Stat(path + nextSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the announced key is left: %v", err)
	}
}

// Keys of a clock that was ahead become keys of now, both of them.
func TestKeysOfTheFutureBecomeThoseOfNow(t *testing.T) {
	dir := t.TempDir()
	tunnels := New(proc.New(""), "", dir, dir)
	defer tunnels.Close()
	late := time.Now().Add(1000 * time.Hour)
	path := filepath.Join(dir, "wireguard", "clusters")
	for _, next := range []bool{false, true} {
		before, err := tunnels.Kept("clusters")
		if err != nil {
			t.Fatal(err)
		}
		if next {
			err = errors.Join(tunnels.Announce("clusters"), os.Chtimes(path+nextSuffix, late, late))
		}
		if err := errors.Join(err, os.Chtimes(path, late, late)); err != nil {
			t.Fatal(err)
		}
		if k, err := tunnels.Kept("clusters"); err != nil || !k.Made.Equal(late) {
			t.Errorf("%+v, %v", k, err)
		}
		if err := tunnels.Date("clusters"); err != nil {
			t.Fatal(err)
		}
		k, err := tunnels.Kept("clusters")
		if err != nil || time.Since(k.Made).Abs() > time.Minute || k.Public != before.Public {
			t.Errorf("%+v, %v", k, err)
		}
		if next != (k.Next != "") || next && time.Since(k.Announced).Abs() > time.Minute {
			t.Errorf("the next one: %+v", k)
		}
	}
}
