// Package nearest finds the word that a person probably meant with a mistyped word.
package nearest

import (
	"slices"
	"strings"
)

// To returns the word in all that is most similar to text; "" if none is similar. A word is similar if it
// begins with text, or if few of its letters have to change: a third of them, or two if that is more.
func To(text string, all []string) string {
	best, fewest := "", 0
	for _, word := range all {
		d := distance(strings.ToLower(text), strings.ToLower(word))
		if len(text) > 2 && strings.HasPrefix(word, text) {
			d = 1
		}
		if d <= max(2, len(word)/3) && d < len(word) && (best == "" || d < fewest) {
			best, fewest = word, d
		}
	}
	return best
}

// Question returns ": did you mean …?" for the end of an error; "" if no word is similar to text.
func Question(text, before string, all []string) string {
	if word := To(text, all); word != "" {
		return "; did you mean " + before + word + "?"
	}
	return ""
}

// distance returns the number of letters that have to be added, left out, changed or swapped with their
// neighbour.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case x[i-1] == y[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + slices.Min([]int{rows[i-1][j-1], rows[i-1][j], rows[i][j-1]})
			}
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
