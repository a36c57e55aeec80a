package shellcli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/pubsub/shellproto"
)

// maxItem is the longest text of one item, in characters: a longer one is cut, as it passes too fast to be read.
const maxItem = 400

// render prints one answer for people.
func render(w io.Writer, color bool, op string, data json.RawMessage) error {
	switch op {
	case "tree":
		return decoded(data, func(all []shellproto.Actor) error { return renderTree(w, color, all) })
	case "inspect":
		return decoded(data, func(i shellproto.Inspection) error {
			if err := renderTree(w, color, []shellproto.Actor{i.Actor}); err != nil {
				return err
			}
			return renderState(w, i.State)
		})
	case "tail":
		return decoded(data, func(i shellproto.TailItem) error {
			return printLine(w, clock(i.At), i.Actor, i.Way, i.Type, took(i.Took), i.Text)
		})
	case "watch":
		return decoded(data, func(i shellproto.WatchItem) error {
			value := string(i.Value)
			if i.Deleted {
				value = "deleted"
			}
			return printLine(w, clock(i.At), i.Topic, i.Key, value)
		})
	case "events":
		return decoded(data, func(e nodeapi.Event) error {
			by := ""
			if e.Cause.By != "" {
				by = "by " + e.Cause.By
			}
			failed := ""
			if e.Error != "" {
				failed = "error: " + e.Error
			}
			return printLine(w, clock(e.At()), e.Kind, e.Object, e.Name, e.Text, by, failed)
		})
	case "trace":
		return decoded(data, func(i shellproto.TraceItem) error {
			depth := min(max(i.Depth, 0), 20) // a wrong one must not fill the screen
			failed := ""
			if i.Error != "" {
				failed = "failed: " + i.Error
			}
			return printLine(w, clock(i.At), strings.Repeat("  ", depth)+i.Where, i.What, took(i.Took), failed)
		})
	}
	if d, ok := done(op, data); ok {
		return printLine(w, d.Text)
	}
	return renderJSON(w, data)
}

// done returns the answer of an operation that changes something.
func done(op string, data json.RawMessage) (shellproto.Done, bool) {
	var d shellproto.Done
	known, _ := find(op)
	return d, known.Writes && json.Unmarshal(data, &d) == nil && d.Text != ""
}

// decoded reads an answer and prints it.
func decoded[T any](data json.RawMessage, print func(T) error) error {
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("answer: not understood: %w", err)
	}
	return print(v)
}

// renderTree prints actors below their parents, and then why some of them crashed.
func renderTree(w io.Writer, color bool, all []shellproto.Actor) error {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b shellproto.Actor) int {
		return slices.Compare(strings.Split(a.ID, "/"), strings.Split(b.ID, "/"))
	})
	table := term.Table{Head: []string{"ACTOR", "STATE", "CRASHES", "MESSAGES", "WAITING", "OLDEST", "NOW"}}
	for i, a := range all {
		now := a.Now
		if now != "" {
			now += " for " + short(a.NowSince)
		}
		table.Add(indented(all[:i], a.ID), a.State, fmt.Sprint(a.Crashes), fmt.Sprint(a.Messages),
			fmt.Sprint(a.Waiting), took(a.Oldest), now)
	}
	if err := table.Write(w, color); err != nil {
		return err
	}
	for _, a := range all {
		if a.Last == "" {
			continue
		}
		line := fmt.Sprintf("%s: crashed %s: %s", a.ID, clock(a.LastAt), a.Last)
		if a.Next != "" {
			line += "; restarts " + a.Next
		}
		if err := printLine(w, line); err != nil {
			return err
		}
	}
	return nil
}

// indented returns an actor's name below the nearest actor before it whose path its own continues.
func indented(before []shellproto.Actor, id string) string {
	depth, parent := 0, ""
	for _, b := range before {
		if strings.HasPrefix(id, b.ID+"/") {
			depth, parent = depth+1, b.ID+"/"
		}
	}
	return strings.Repeat("  ", min(depth, 20)) + strings.TrimPrefix(id, parent)
}

// renderState prints the state of an actor without what is empty or zero: most of it says nothing.
func renderState(w io.Writer, state json.RawMessage) error {
	var v any
	d := json.NewDecoder(bytes.NewReader(state))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("answer: not understood: %w", err)
	}
	text, err := json.Marshal(filled(v))
	if err != nil {
		return fmt.Errorf("answer: not understood: %w", err)
	}
	return renderJSON(w, text)
}

// filled returns a value without what is empty or zero in it.
func filled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if v[name] = filled(x); isEmpty(v[name]) {
				delete(v, name)
			}
		}
	case []any:
		for i, x := range v {
			v[i] = filled(x)
		}
	}
	return v
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case json.Number:
		return v == "0"
	}
	return v == nil || v == "" || v == false
}

func renderJSON(w io.Writer, data json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return fmt.Errorf("answer: not understood: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(term.EscapeJSON(b.Bytes()))
	return err
}

// printLine prints the parts that are not empty, on one line.
func printLine(w io.Writer, parts ...string) error {
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	text := term.Printable(strings.Join(parts, "  "))
	if utf8.RuneCountInString(text) > maxItem {
		text = string([]rune(text)[:maxItem-1]) + "…"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

// renderDropped says how much of a stream is missing.
func renderDropped(s term.Streams, n uint64) {
	if n > 0 {
		s.Printf("%d items dropped: this shell reads too slowly", n)
	}
}

func clock(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format("15:04:05.000")
}

// took formats a duration, or nothing for none.
func took(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return short(d)
}

// short formats a duration with at most three digits that count.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

// refused is the error of an answer, as the daemon wrote it, with the exit status for a script.
func refused(op string, f shellproto.Frame) error {
	code := f.Exit
	if code < term.ExitError || code > term.ExitNotFound {
		code = term.ExitError // a daemon's odd status must not look like success
	}
	return term.WithClass(code, fmt.Errorf("%s: %s", op, term.Printable(f.Error)))
}
