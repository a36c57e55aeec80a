package config

// Repeats are the keys of one object that it has more than once: one fault each, however often.
// The zero value has none.
type Repeats struct {
	faults map[string]repeat
}

type repeat struct{ at, times int }

// Add notes in fs that the object at path has a key once more.
func (r *Repeats) Add(fs *Faults, path []string, key string) {
	was, known := r.faults[key]
	if !known {
		if r.faults == nil {
			r.faults = map[string]repeat{}
		}
		r.faults[key] = repeat{len(*fs), 2}
		fs.Add(Sub(path, key), DuplicateKey(2), "")
		return
	}
	was.times++
	r.faults[key] = was
	(*fs)[was.at].Problem = DuplicateKey(was.times)
}
