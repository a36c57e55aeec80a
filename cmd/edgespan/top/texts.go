package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"edgespan/cmd/edgespan/nodecli"
	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// eventsShown is how many events of one object, or of all, a text has.
const eventsShown = 200

// textOf asks the daemon for the text about what a person has chosen.
func textOf(ctx context.Context, c *nodeapi.Client, m *Model, ask Ask) Text {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	t := Text{Title: strings.Trim(ask.Kind+"/"+ask.ID, "/")}
	var err error
	switch {
	case ask.Events:
		t.Title = strings.TrimSpace("events " + t.Title)
		t.Lines, err = eventLines(ctx, c, strings.Trim(ask.Kind+"/"+ask.ID, "/"))
	case ask.Kind == "actor":
		t.Lines = m.actorLines(ask.ID)
	default:
		var x nodeapi.Explanation
		if x, err = c.Explain(ctx, ask.Kind, ask.ID); err == nil {
			t.Lines = strings.Split(strings.TrimSpace(nodecli.Explained(x, time.Now())), "\n")
		}
	}
	if err != nil {
		t.Lines = []string{"not known: " + term.Printable(err.Error())}
	}
	return t
}

// eventLines returns events, the newest first.
func eventLines(ctx context.Context, c *nodeapi.Client, of string) (lines []string, err error) {
	err = c.Events(ctx, nodeapi.EventQuery{Of: of, Last: eventsShown}, func(e nodeapi.Event) error {
		line := fmt.Sprintf("%s  %-9s  %s", e.At().UTC().Format("15:04:05"), e.Kind, e.Object)
		for _, part := range []string{e.Name, e.Text, e.Error} {
			if part != "" {
				line += "  " + part
			}
		}
		lines = append(lines, term.Printable(line))
		return nil
	})
	slices.Reverse(lines)
	if len(lines) == 0 && err == nil {
		lines = []string{"no events"}
	}
	return lines, err
}

// actorLines describes one actor.
func (m *Model) actorLines(id string) []string {
	for _, r := range m.last.Items["actor"] {
		if r.ID != id {
			continue
		}
		a := nodeapi.As(r.Status, nodeapi.ActorStatus{})
		lines := []string{
			"state      " + a.State,
			fmt.Sprintf("messages   %d handled, %s", a.Messages, term.Many(a.Waiting, "waiting message")),
			fmt.Sprintf("restarts   %d", a.Crashes),
		}
		if a.Now != "" {
			lines = append(lines, fmt.Sprintf("now        %s for %v", term.Printable(a.Now),
				max(0, m.last.At.Sub(a.NowSince)).Round(time.Millisecond)))
		}
		if a.Last != "" {
			lines = append(lines, "crashed    "+term.Printable(a.Last))
		}
		if a.Next != "" {
			lines = append(lines, "restarts   in "+term.Printable(a.Next))
		}
		path := term.Printable(strings.TrimPrefix(id, "router/"))
		return append(lines, "", "edgespan shell -c 'inspect "+path+"' shows its state, 'tail "+path+"' its messages")
	}
	return []string{"it has ended"}
}
