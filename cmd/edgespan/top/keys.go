package top

import (
	"bufio"
	"io"
)

// sequences are what terminals send for keys that are not characters, behind an escape.
var sequences = map[string]rune{
	"[A": KeyUp, "[B": KeyDown, "OA": KeyUp, "OB": KeyDown, "[5~": KeyPageUp, "[6~": KeyPageDown,
}

// maxSequence bounds a sequence that is none of these.
const maxSequence = 8

// readKeys sends the keys of a terminal until it ends. An escape that nothing follows at once is the key itself. After
// each key it reads on once more says so, and ends if that is closed: what is typed later is somebody else's.
func readKeys(from io.Reader, to chan<- rune, more <-chan struct{}) {
	defer close(to)
	for in := bufio.NewReader(from); ; {
		r, _, err := in.ReadRune()
		if err != nil {
			return
		}
		switch r {
		case '\r', '\n':
			r = KeyEnter
		case '\t':
			r = KeyTab
		case 127, 8:
			r = KeyBack
		case 0x1b:
			if r = KeyEscape; in.Buffered() > 0 {
				r = sequence(in)
			}
		}
		if r != 0 {
			to <- r
			if _, goesOn := <-more; !goesOn {
				return
			}
		}
	}
}

// sequence reads what follows an escape, and returns 0 for a key that means nothing here.
func sequence(in *bufio.Reader) rune {
	text := ""
	for in.Buffered() > 0 && len(text) < maxSequence {
		c, err := in.ReadByte()
		if err != nil {
			return 0
		}
		text += string(c)
		if key, ok := sequences[text]; ok {
			return key
		}
		if len(text) > 1 && (c >= '@' && c <= '~') {
			return 0
		}
	}
	return 0
}
