mod bed;
mod checks;
mod holder;
mod silence;
