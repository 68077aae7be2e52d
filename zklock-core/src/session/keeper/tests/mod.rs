mod bed;
mod checks;
mod deletions;
mod holder;
mod panics;
mod silence;
mod unanswered;
