package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"edgespan/cmd/term"
)

// Commands of --commands, one per line of stdin.
const (
	commandRound = "round" // what nodes do from now on counts
	commandState = "state"
)

// fleetState is the answer to every command.
type fleetState struct {
	Online    int       `json:"online"` // nodes with a stream
	Pushed    int       `json:"pushed"`
	Confirmed int       `json:"confirmed"`
	Begun     time.Time `json:"begun"`   // of the round
	Acked     []float64 `json:"ackedMs"` // since then, by each node that stored its config, shortest first
	Undone    int       `json:"undone"`
}

// answerCommands answers the commands on stdin, one line of JSON each, until stdin or ctx ends. The first line is
// printed unasked, once all nodes have joined.
func (m *simulator) answerCommands(ctx context.Context) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() { // blocks in a read that nothing interrupts
		in := bufio.NewScanner(m.app.In)
		for in.Scan() {
			select {
			case lines <- in.Text():
			case <-ctx.Done():
				return
			}
		}
		failed <- in.Err()
	}()
	for command := commandState; ; {
		switch command {
		case commandRound:
			m.fleet.Round()
		case commandState:
		default:
			return term.Usagef("--commands: invalid command %.60q: must be %s or %s", command, commandRound, commandState)
		}
		if err := m.printState(m.app.Out); err != nil {
			return err
		}
		select {
		case command = <-lines:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *simulator) printState(to io.Writer) error {
	s := fleetState{Online: m.fleet.Online(), Acked: []float64{}, Undone: m.fleet.UnrequestedUndos()}
	s.Pushed, _, s.Confirmed = m.fleet.Progress()
	begun, took := m.fleet.Acks()
	s.Begun = begun
	for _, d := range took {
		s.Acked = append(s.Acked, float64(d.Microseconds())/1e3)
	}
	text, err := json.Marshal(s)
	if err == nil {
		_, err = fmt.Fprintf(to, "%s\n", text)
	}
	return err
}
