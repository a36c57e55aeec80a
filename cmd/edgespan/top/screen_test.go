package top

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// onTerminal runs top with a daemon on a terminal of 80 x 24.
func onTerminal(t *testing.T) (*clitest.Terminal, <-chan int) {
	t.Helper()
	env := clitest.At(clitest.ServeDaemon(t, clitest.Filled()))
	on := clitest.OpenTerminal(t, 80, 24)
	a := &reach.App{Streams: term.Streams{In: on.Tty, Out: on.Tty, Err: on.Tty,
		Env: func(key string) string { return env[key] }}}
	root := a.NewRoot("edgespan", "", "")
	a.Bind(root)
	root.AddCommand(New(a))
	code := make(chan int, 1)
	go func() { code <- a.Run(context.Background(), root, []string{"top", "--ascii", "--interval", "100ms"}) }()
	return on, code
}

func TestAPersonLooksAroundWithKeys(t *testing.T) {
	on, code := onTerminal(t)
	screen := on.Until("demo net")
	for _, want := range []string{"edgespan  ", "\n> ", "  NETWORK", "tab list   enter explain   e events   / filter"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	on.Type("\t")
	on.Until("> demo net")
	on.Type("\r")
	on.Until("ni/" + clitest.NiID)
	on.Until("q back   j k move")
	on.Type("q")
	on.Until("> demo net")
	on.Type("e")
	on.Until("events ni/" + clitest.NiID)
	on.Type("\x1b")
	on.Until("> demo net")
	on.Type("/no such\r")
	on.Until(`only with "no such"   escape: all`)
	if all := strings.Join(on.Lines(), "\n"); strings.Contains(all, "demo net") {
		t.Errorf("the filter leaves:\n%s", all)
	}
	on.Type("\x1b")
	on.Until("> demo net")
	on.Type("\t\t\x1b[B\x1b[A\r") // actors
	on.Until("actor/router")
	on.Until("messages   ")
	on.Type("?")
	on.Type("q?")
	on.Until("up, down, k, j    move in a list or a text")
	on.Type("\x03")
	select {
	case got := <-code:
		if got != term.ExitOK {
			t.Errorf("exit %d", got)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("top does not end")
	}
	for end := time.Now().Add(20 * time.Second); !strings.HasSuffix(on.Raw(), "\x1b[?25h\x1b[?1049l"); {
		if time.Now().After(end) {
			t.Fatalf("the terminal is not left as it was: … %q", on.Raw()[len(on.Raw())-20:])
		}
		time.Sleep(time.Millisecond) // what was written is still on its way to the screen
	}
	if !strings.HasPrefix(on.Raw(), "\x1b[?1049h\x1b[?25l") {
		t.Errorf("the terminal begins with %q", on.Raw()[:20])
	}
}

// Whatever is typed, in whatever size, a screen has its size and no more, and the cursor is in it.
func TestEachScreenHasItsSize(t *testing.T) {
	var m Model
	m.Add(sample(100, 0))
	for _, size := range [][2]int{{80, 24}, {120, 50}, {40, 12}, {20, 6}, {10, 3}} {
		var s Screen
		for i, key := range "jjjjjjjjj\ue005jjkkkkkkksjjj/net-0\ue004jjjj\ue007ssj\ue002\ue003?jjjjjq" + strings.Repeat("j", 120) {
			s.Key(key, &m)
			lines := s.Lines(&m, size[0], size[1], true)
			if len(lines) != size[1] {
				t.Fatalf("%v after key %d: %d lines", size, i, len(lines))
			}
			marked := 0
			for _, l := range lines {
				if utf8.RuneCountInString(l) > size[0] {
					t.Errorf("%v: too wide: %q", size, l)
				}
				if strings.HasPrefix(l, "> ") {
					marked++
				}
			}
			if marked != 1 && s.text == nil && size[1] >= 12 {
				t.Errorf("%v after key %d: %d rows marked:\n%s", size, i, marked, strings.Join(lines, "\n"))
			}
		}
	}
}

// A list that shrinks under the cursor, and one that is empty, break nothing.
func TestTheCursorOutlivesItsRow(t *testing.T) {
	var m Model
	m.Add(sample(30, 0))
	var s Screen
	s.Key(KeyTab, &m)
	for range 29 {
		s.Key(KeyDown, &m)
	}
	m.Add(sample(2, 1))
	if ask := s.Key(KeyEnter, &m); ask.Kind != "ni" || ask.ID != "0" { // the bad one is first, so this is the last
		t.Errorf("asks for %+v", ask)
	}
	m.Add(Sample{At: noon, Items: map[string][]nodeapi.Resource{}})
	s = Screen{}
	if ask := s.Key(KeyEnter, &m); ask != (Ask{}) {
		t.Errorf("asks for %+v of nothing", ask)
	}
	s.Lines(&m, 80, 24, true)
}

func TestWhatAnActorHandlesIsShownWithItsTime(t *testing.T) {
	var m Model
	m.Add(Sample{At: noon, Items: map[string][]nodeapi.Resource{"actor": {{ID: "router/ground",
		Status: nodeapi.ActorStatus{State: "running", Waiting: 3, Now: "add link es1", NowSince: noon.Add(-7 * time.Second)}}}}})
	text := strings.Join(m.Lines(100, 24, true), "\n")
	if !strings.Contains(text, "(1 not well)") || !strings.Contains(text, "3        add link es1 for 7s") {
		t.Error(text)
	}
	if lines := fmt.Sprint(m.actorLines("router/ground")); !strings.Contains(lines, "now        add link es1 for 7s") {
		t.Error(lines)
	}
}

func TestKeysOfTerminalsAreRead(t *testing.T) {
	to, more := make(chan rune), make(chan struct{}, 1)
	go readKeys(strings.NewReader("a\x1b[A\x1bOB\x1b[5~\x1b[99;99Hb\t\r\x7fé\x1b"), to, more)
	var got []rune
	for r := range to {
		got = append(got, r)
		more <- struct{}{}
	}
	want := []rune{'a', KeyUp, KeyDown, KeyPageUp, 'b', KeyTab, KeyEnter, KeyBack, 'é', KeyEscape}
	if string(got) != string(want) {
		t.Errorf("%q, want %q", got, want)
	}
}
