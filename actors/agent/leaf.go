package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/action"
	"edgespan/config/nodeconf/commitconfirm"
)

// notesFile is the file of the notes, next to the slots.
const notesFile = "notes"

// restartTimeout bounds the start of a restart.
const restartTimeout = time.Minute

// diskWork is what is being written, and what remains to be written.
type diskWork struct {
	writing  int // slots in flight: 0 or 1
	writeErr error
	unstored *commitconfirm.Write // the running config, if it came from the file and is not on the disk
	storeErr error
	storing  bool                  // unstored is being written
	delayed  []commitconfirm.Write // writes to run after that
	noting   bool                  // the notes are being written
	unnoted  bool                  // they have changed since
	stops    []chan<- struct{}     // callers that wait for the end of all writes
}

// readDisk reads the slots and the notes. What is unreadable becomes a fault.
func readDisk(d Disk) (out commitconfirm.Disk, notes Notes, faults []error) {
	out.Faults = map[commitconfirm.Slot]string{}
	read := func(slot commitconfirm.Slot, decode func([]byte) error) {
		content, err := d.Read(string(slot))
		if err == nil {
			err = decode(content)
		} else if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			if keeper, ok := d.(interface{ SetAside(name string) }); ok {
				keeper.SetAside(string(slot)) // before a write replaces it
			}
			out.Faults[slot] = err.Error()
			faults = append(faults, fmt.Errorf("slot %s: %w", slot, err))
		}
	}
	for slot, to := range map[commitconfirm.Slot]**commitconfirm.ConfigRecord{
		commitconfirm.SlotConfirmed: &out.Confirmed, commitconfirm.SlotCopy: &out.Copy,
		commitconfirm.SlotPending: &out.Pending,
	} {
		read(slot, func(text []byte) (err error) { *to, err = commitconfirm.DecodeRecord(text); return err })
	}
	read(commitconfirm.SlotClock,
		func(text []byte) (err error) { out.Clock, err = commitconfirm.DecodeClock(text); return err })
	text, err := d.Read(notesFile)
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		notes = Notes{}
		faults = append(faults, fmt.Errorf("notes: %w", err))
	}
	return out, notes, faults
}

// write writes a slot to the disk.
func (s *shell) write(w commitconfirm.Write) {
	if s.storing { // concurrent writes of one slot would have no order
		s.delayed = append(s.delayed, w)
		return
	}
	s.writing++
	last := s.unstored == nil && !s.m.Live().Fallback // a stored config remains as a fallback
	s.startTask(func() func() {
		err := writeSlot(s.o.Disk, w)
		return func() {
			s.writing--
			why := ""
			switch {
			case err == nil && w.Slot == commitconfirm.SlotConfirmed:
				s.noteUnstored(nil, nil)
			case err != nil && !last && w.Record != nil && w.Record.Source == commitconfirm.File &&
				w.Slot == commitconfirm.SlotConfirmed:
				s.noteUnstored(&w, err) // a restart reads the file again, so nothing is lost
			case err != nil:
				s.writeErr, why = err, err.Error()
			}
			s.step(commitconfirm.Stored{Why: why})
			s.sendOwedAnswer()
			s.answerStopped()
		}
	})
}

// storeRetry is how often a failed write of the config is retried.
const storeRetry = 10 * time.Second

// noteUnstored records that the file's config runs but is not stored or, with nil, that the running config is stored.
func (s *shell) noteUnstored(w *commitconfirm.Write, err error) {
	if s.unstored != nil && w == nil {
		s.setFault("")
	}
	if s.unstored, s.storeErr = w, err; w != nil {
		s.setTimer(storeTimer, 0, storeRetry)
	}
}

// sendOwedAnswer reports that, after the step's other reports.
func (s *shell) sendOwedAnswer() {
	if s.unstored != nil {
		s.refuse("store the config of the config file, which is applied already", s.storeErr)
	}
}

// storeOwed retries the write, after any other write.
func (s *shell) storeOwed() {
	switch {
	case s.unstored == nil:
	case s.writing > 0:
		s.setTimer(storeTimer, 0, storeRetry)
	default:
		w := *s.unstored
		s.writing++
		s.storing = true
		s.startTask(func() func() {
			err := writeSlot(s.o.Disk, w)
			return func() {
				s.writing--
				s.storing = false
				for _, d := range s.delayed {
					s.write(d)
				}
				s.delayed = nil
				if err == nil {
					s.noteUnstored(nil, nil)
				} else {
					s.setTimer(storeTimer, 0, storeRetry)
				}
				s.answerStopped()
			}
		})
	}
}

func writeSlot(d Disk, w commitconfirm.Write) error {
	switch {
	case w.Record != nil && w.Slot == commitconfirm.SlotCopy:
		return d.WriteSpare(string(w.Slot), commitconfirm.EncodeRecord(w.Record))
	case w.Record != nil:
		return d.Write(string(w.Slot), commitconfirm.EncodeRecord(w.Record))
	case w.Clock != nil:
		return d.Write(string(w.Slot), commitconfirm.EncodeClock(*w.Clock))
	}
	return d.Remove(string(w.Slot))
}

// note changes the notes and writes them.
func (s *shell) note(change func(*Notes)) {
	change(&s.notes)
	s.unnoted = true
	s.scheduleReport()
	s.writeNotes()
}

func (s *shell) writeNotes() {
	if s.noting || !s.unnoted {
		return
	}
	s.noting, s.unnoted = true, false
	text, err := json.Marshal(s.notes)
	s.startTask(func() func() {
		if err == nil {
			err = s.o.Disk.Write(notesFile, text)
		}
		return func() {
			s.noting = false
			if err != nil {
				s.log.Error("write the notes", zap.Error(err))
			}
			s.writeNotes()
			s.answerStopped()
		}
	})
}

// answerStopped answers the callers that wait for the end of all writes.
func (d *diskWork) answerStopped() {
	if d.writing > 0 || d.noting {
		return
	}
	for _, reply := range d.stops {
		reply <- struct{}{}
	}
	d.stops = nil
}

// run runs the actions that a difference entails, one after the other.
func (s *shell) run(e commitconfirm.RunActions) {
	steps := action.Plan(s.o.Facts.Metadata, e.Diff, s.o.Facts.Actions)
	document := s.live.Document
	s.startTask(func() func() {
		results, restart := runSteps(steps, s.log, func(do action.Do) error {
			timeout := do.Timeout
			if timeout == 0 {
				timeout = action.DefaultTimeout
			}
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			return s.o.Runner.Do(ctx, do, document)
		})
		return func() { s.step(commitconfirm.ActionsDone{ID: e.ID, Results: results, Restart: restart}) }
	})
}

func runSteps(steps []action.Step, log *zap.Logger, run func(action.Do) error) (results []action.Result,
	restart string) {
	for _, step := range steps {
		cause := ""
		switch {
		case step.Skip != "" || step.Do.Kind == action.Unsupported:
		case step.Do.Kind == action.RestartAgent:
			restart = action.NameRestart
		case step.Do.Kind == action.Reboot:
			restart = action.NameReboot
		default:
			if err := run(step.Do); err != nil {
				cause = err.Error()
			}
		}
		for _, r := range step.Results(cause) {
			results = append(results, r)
			log.Info("action", zap.Stringer("result", r), zap.Stringer("by", step.Do))
		}
	}
	return results, restart
}

// restart restarts the agent or the machine. The slots on the disk record it already.
func (s *shell) restart(e commitconfirm.Restart) {
	s.log.Warn("restart", zap.String("action", e.Action))
	s.report() // the last one before the restart
	s.startTask(func() func() {
		ctx, cancel := context.WithTimeout(context.Background(), restartTimeout)
		defer cancel()
		err := s.o.Runner.Restart(ctx, e.Action)
		return func() {
			if err != nil {
				s.step(commitconfirm.RestartFailed{Why: err.Error()})
			}
		}
	})
}

// newHold starts a local hold.
func newHold(who string) *nodeproto.Held { return &nodeproto.Held{By: who, Since: time.Now().UTC()} }
