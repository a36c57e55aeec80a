package events

// Saving decides what of a Log is written to its file: new events are appended, and the whole Log replaces the file
// when that would become longer than its limit, after a failed write, and after damaged lines. NewSaving makes one.
type Saving struct {
	limit   int
	size    int // of the file
	unsaved map[uint64]bool
	counts  map[uint64]int  // by Seq, as written
	whole   bool            // the next write replaces the file
	writing map[uint64]int  // counts by Seq of the write under way; nil: none
	dropped map[uint64]bool // from the Log during that write
	bytes   int             // of that write
	replace bool            // that write replaces the file
	lost    int
	failing bool
}

// NewSaving returns a Saving for a file of limit bytes, which must be twice those of its Log.
func NewSaving(limit int) *Saving {
	return &Saving{limit: limit, unsaved: map[uint64]bool{}, counts: map[uint64]int{}}
}

// Write is one write to the file.
type Write struct {
	Lines   []byte
	Replace bool // the file has only these
}

// Read records what was read of the file: its size, the events in it and the number of damaged lines.
func (s *Saving) Read(size int, list []Event, damaged int) {
	s.size, s.whole, s.writing = size, damaged > 0 || size > s.limit, nil
	for _, e := range list {
		s.counts[e.Seq] = max(e.Count, 1)
	}
}

// Note records a change of the Log. An event that repeats is written again once its count has doubled.
func (s *Saving) Note(c Change) {
	if seq := c.Event.Seq; !c.Repeats || c.Event.Count >= 2*s.counts[seq] {
		s.unsaved[seq] = true
	}
	for _, seq := range c.Dropped {
		if _, under := s.writing[seq]; under {
			if s.dropped == nil {
				s.dropped = map[uint64]bool{}
			}
			s.dropped[seq] = true
		} else if s.unsaved[seq] && s.counts[seq] == 0 {
			s.lost++ // it never was on the disk
		}
		delete(s.unsaved, seq)
		delete(s.counts, seq)
	}
}

// Due reports whether something waits to be written, and no write is under way.
func (s *Saving) Due() bool { return s.writing == nil && len(s.unsaved) > 0 }

// Busy reports whether a write is under way.
func (s *Saving) Busy() bool { return s.writing != nil }

// IsFailing reports whether the last write failed.
func (s *Saving) IsFailing() bool { return s.failing }

// Next begins the next write, if one is due. With all it also writes counts that are not due.
func (s *Saving) Next(l *Log, all bool) (w Write, ok bool) {
	if s.writing != nil {
		return Write{}, false
	}
	for _, e := range l.Events() {
		if all && max(e.Count, 1) != s.counts[e.Seq] {
			s.unsaved[e.Seq] = true
		}
	}
	if len(s.unsaved) == 0 {
		return Write{}, false
	}
	w.Replace, s.writing = s.whole, map[uint64]int{}
	if !w.Replace {
		w.Lines = s.lines(l, false)
		w.Replace = s.size+len(w.Lines) > s.limit
	}
	if w.Replace {
		w.Lines = s.lines(l, true)
	}
	s.bytes, s.replace, s.unsaved = len(w.Lines), w.Replace, map[uint64]bool{}
	return w, true
}

func (s *Saving) lines(l *Log, all bool) []byte {
	var out []byte
	for _, e := range l.Events() {
		if all || s.unsaved[e.Seq] {
			out = append(out, Encode(e)...)
			s.writing[e.Seq] = max(e.Count, 1)
		}
	}
	return out
}

// Outcome is what the end of a write means for people.
type Outcome int

// The outcomes of a write.
const (
	AsBefore Outcome = iota // as the write before
	Failing                 // the first that failed
	Works                   // the first one after those that failed
)

// Done ends the write under way. Lost are, with Works, the events that were never on the disk.
func (s *Saving) Done(worked bool) (o Outcome, lost int) {
	written := s.writing
	s.writing = nil
	if !worked {
		for seq := range written {
			if !s.dropped[seq] {
				s.unsaved[seq] = true
			} else if s.counts[seq] == 0 {
				s.lost++
			}
		}
		s.dropped = nil
		s.whole = true // the file may have a part of the lines
		if s.failing {
			return AsBefore, 0
		}
		s.failing = true
		return Failing, 0
	}
	if s.size += s.bytes; s.replace {
		s.size, s.whole = s.bytes, false
	}
	for seq, count := range written {
		if !s.dropped[seq] {
			s.counts[seq] = count
		}
	}
	s.dropped = nil
	if !s.failing {
		return AsBefore, 0
	}
	lost = s.lost
	s.failing, s.lost = false, 0
	return Works, lost
}
