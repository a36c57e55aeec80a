package netstate

// files says whether any come or change, and whether any go.
func files(have, want State) (come, gone bool) {
	for id, o := range want {
		f, is := o.(File)
		come = come || is && !f.Dir && (have[id] == nil || have[id].Text() != f.Text())
	}
	for id, o := range have {
		f, is := o.(File)
		gone = gone || is && !f.Dir && want[id] == nil
	}
	return come, gone
}

// reloads tell a process to read its files again: before adapter links come up where files have
// come or changed, so that it knows whoever asks, and after files have gone, so that it forgets
// what was in them. Where both are so, the first leaves on record what was read before: a plan
// that is cut short between them has the second done by the next one.
func reloads(h, w Process, come, gone bool) (first, last []step) {
	reload := func(w Process) Op { return Op{Reload, KindProcess, []Item{{w, h}}} }
	if !gone {
		return []step{{reload(w), phase(w)}}, nil
	}
	if come {
		again := w
		again.Reload = h.Reload
		first = []step{{reload(again), phase(w)}}
	}
	return first, []step{{reload(w), processChange}}
}

func onlyReload(h, w Process) bool {
	h.Reload = w.Reload
	return h.Text() == w.Text()
}
