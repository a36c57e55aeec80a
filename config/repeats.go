package config

// Repeats collects the duplicate keys of one object: one fault per key, with its count. The zero value is empty.
type Repeats struct {
	faults map[string]repeat
}

type repeat struct{ at, times int }

// Add counts one more occurrence of a key of the object at path and updates its fault in fs.
func (r *Repeats) Add(fs *Faults, path []string, key string) {
	was, known := r.faults[key]
	if !known {
		if r.faults == nil {
			r.faults = map[string]repeat{}
		}
		r.faults[key] = repeat{len(*fs), 2}
		fs.Add(Below(path, key), DuplicateKey(2), "")
		return
	}
	was.times++
	r.faults[key] = was
	(*fs)[was.at].Problem = DuplicateKey(was.times)
}
