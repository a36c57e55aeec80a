package netstate

// files reports whether files are added or changed, and whether files are removed.
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

// reloads returns the reloads of a process: before adapter links come up if files were added or changed, so that it
// knows every client, and after files were removed, so that it forgets their content. If both apply, the first one
// keeps the recorded Reload: if the plan is interrupted between them, the next one repeats the second.
func reloads(h, w Process, come, gone bool) (first, last []step) {
	reload := func(w Process) Op { return Op{Reload, KindProcess, []Item{{w, h}}} }
	if !gone {
		return []step{{reload(w), planOrder(w)}}, nil
	}
	if come {
		again := w
		again.Reload = h.Reload
		first = []step{{reload(again), planOrder(w)}}
	}
	return first, []step{{reload(w), processChange}}
}

func onlyReload(h, w Process) bool {
	h.Reload = w.Reload
	return h.Text() == w.Text()
}
