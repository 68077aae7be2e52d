mod bed;
mod checks;
mod deletions;
mod holder;
mod silence;
