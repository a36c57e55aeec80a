package netstate

import "slices"

// processChange is the place of a changed process among the removals: just after the files.
const processChange = 8

// fileChanges reports whether files are added or changed, and whether files are removed.
func fileChanges(have, want State) (come, gone bool) {
	for id, o := range want {
		f, ok := o.(File)
		come = come || ok && !f.Dir && (have[id] == nil || have[id].Text() != f.Text())
	}
	for id, o := range have {
		f, ok := o.(File)
		gone = gone || ok && !f.Dir && want[id] == nil
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

// replacements returns the ops that replace a process: last, so that it forgets files that are removed; but before
// adapter links come up if it has a new set to fill, as their apps must not get an answer that fills none. If it then
// has files to forget, it reads them again at the end.
func replacements(h, w Process, have State, gone bool) (first, last []step) {
	change := func(to Process) Op { return Op{Change, KindProcess, []Item{{to, h}}} }
	fills := slices.ContainsFunc(w.After, func(id ID) bool { return id.Kind == KindSet && have[id] == nil })
	switch {
	case !fills:
		return nil, []step{{change(w), processChange}}
	case !gone:
		return []step{{change(w), planOrder(w)}}, nil
	}
	again := w
	again.Reload = h.Reload
	return []step{{change(again), planOrder(w)}},
		[]step{{Op{Reload, KindProcess, []Item{{w, again}}}, processChange}}
}

// onlyReload reports whether a process can become another one without a new start.
func onlyReload(h, w Process) bool {
	h.Reload, h.Limits = w.Reload, w.Limits
	return h.Text() == w.Text()
}
